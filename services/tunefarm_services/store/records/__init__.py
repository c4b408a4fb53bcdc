"""Tuning records and artifacts."""
