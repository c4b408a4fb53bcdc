"""Converters of single operators."""
