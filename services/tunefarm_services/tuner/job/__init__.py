"""The run of one job, from its lease to its summary."""
