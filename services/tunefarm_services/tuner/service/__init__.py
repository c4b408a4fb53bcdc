"""The tuner process: leases jobs from the queue and runs several at once."""
