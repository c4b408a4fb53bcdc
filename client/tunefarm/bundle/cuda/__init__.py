"""Bundles for NVIDIA GPUs: CUDA source, its device code, and a host part in C."""
