"""Compiled libraries as folders: written, loaded, tried."""
