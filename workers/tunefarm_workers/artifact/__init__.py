"""Libraries as they are shipped: made, checked, and timed in fresh processes."""
