"""Compilers and linkers of bundles in confined children."""
