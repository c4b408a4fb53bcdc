"""The child that holds a device."""
