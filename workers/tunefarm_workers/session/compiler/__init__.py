"""Libraries for such devices, compiled on this host."""
