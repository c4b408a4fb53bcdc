"""Modules and traces from outside, held against the allow-lists."""
