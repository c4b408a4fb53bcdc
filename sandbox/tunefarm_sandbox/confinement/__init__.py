"""Confinement of a process: Landlock, seccomp and resource limits."""
