"""Compiles schedules to the libraries that are timed and shipped."""
