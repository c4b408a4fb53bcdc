"""Whole models: compiled in confined children, written to folders, loaded and called."""
