"""NVIDIA GPUs of this host."""
