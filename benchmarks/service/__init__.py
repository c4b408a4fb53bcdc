"""Footprint and endurance of the service's processes."""
