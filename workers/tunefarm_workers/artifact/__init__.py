"""Shipped libraries: built, checked, and timed in fresh processes."""
