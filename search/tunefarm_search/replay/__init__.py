"""Recorded measurements in place of a farm, to compare strategies."""
