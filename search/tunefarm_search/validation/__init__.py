"""Validation of modules and traces from outside against allow-lists."""
