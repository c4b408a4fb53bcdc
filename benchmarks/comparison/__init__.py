"""Comparison with TVM's own tuner."""
