"""What a device believes: verified metadata, the channel's document, and its own processor."""
