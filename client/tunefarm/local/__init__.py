"""Tuning on this machine."""
