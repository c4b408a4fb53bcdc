"""NVIDIA graphics processors of this host."""
