"""TVM as the search uses it: modules, targets, traces and databases."""
