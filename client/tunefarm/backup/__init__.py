"""Copies of the whole store in one file, and the way back."""
