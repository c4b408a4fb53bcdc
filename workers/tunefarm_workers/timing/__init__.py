"""The timing protocol, and exclusive use of the device while it runs."""
