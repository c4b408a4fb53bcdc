"""Products of matrices for processors: padded rows, and weights in the order in which they are read."""
