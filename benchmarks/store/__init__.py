"""Benchmarks of the store with many records, and recorded measurements for comparing search strategies."""
