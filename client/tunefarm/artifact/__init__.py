"""Compiled libraries in folders: writing, loading and checking them."""
