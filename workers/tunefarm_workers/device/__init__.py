"""What a device is, how fast it is, and when it is not to be trusted."""
