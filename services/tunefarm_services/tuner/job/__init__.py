"""One job, from its lease to its summary."""
