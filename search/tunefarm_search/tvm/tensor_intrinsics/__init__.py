"""Tensor intrinsics: those of TVM, and ours for products of 8-bit integers."""
