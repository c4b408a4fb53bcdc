"""Operators that are computed in another way than TVM computes them."""
