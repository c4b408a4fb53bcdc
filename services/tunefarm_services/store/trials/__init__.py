"""Explorations, trials and their measurements."""
