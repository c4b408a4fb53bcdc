"""Lanes of devices that one long-lived child holds: graphics processors and boards."""
