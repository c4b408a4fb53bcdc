"""Records in this machine's store or on a service."""
