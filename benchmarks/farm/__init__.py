"""What the farm costs, and how far it scales."""
