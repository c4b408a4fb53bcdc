"""Geometry of the drawings that pages contain as SVG."""
