"""Benchmarks of whole models and of the functions that they consist of."""
