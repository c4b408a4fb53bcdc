"""What a confined process may not do: Landlock, seccomp and limits."""
