"""Records in this machine's store or at a service."""
