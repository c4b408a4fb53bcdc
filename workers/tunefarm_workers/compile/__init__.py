"""Compiling for lanes of other hosts."""
