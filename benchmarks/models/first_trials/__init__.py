"""How good the first trials of a search are, on functions of models that nothing was tuned on."""
