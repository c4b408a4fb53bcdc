"""What the trials of an exploration say about its space and its cost model; without TVM."""
