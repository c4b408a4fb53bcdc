"""Benchmarks of tunefarm. To compare with TVM's own tuner: ``python -m benchmarks.comparison.compare``."""
