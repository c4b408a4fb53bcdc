"""Size, start and memory on edge devices, beside other runtimes."""
