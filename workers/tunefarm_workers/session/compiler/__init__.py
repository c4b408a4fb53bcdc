"""Compiles libraries for session devices on this host."""
