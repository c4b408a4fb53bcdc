"""Edge devices, what they report, and rollouts of releases to them."""
