"""Access to TVM for the search: modules, targets, traces and databases."""
