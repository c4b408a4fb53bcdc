"""Relax expressions that importers of several frameworks share."""
