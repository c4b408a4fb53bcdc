"""The child that holds a device, and what it does there."""
