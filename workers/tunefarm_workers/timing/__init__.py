"""How long a kernel takes, and who has the device meanwhile."""
