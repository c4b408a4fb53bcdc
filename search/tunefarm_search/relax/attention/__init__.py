"""Simplifications of what frontends make of attention."""
