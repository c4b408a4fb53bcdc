"""Placement of a kernel's threads on cores, and checks that it holds."""
