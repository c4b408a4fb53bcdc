"""Jobs with their queue, leases and events."""
