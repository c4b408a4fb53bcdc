"""What compares tunefarm with TVM's own tuner, and draws it. Run as ``python -m benchmarks.comparison.compare``."""
