"""Lanes of devices that a long-lived child holds: graphics processors and boards."""
