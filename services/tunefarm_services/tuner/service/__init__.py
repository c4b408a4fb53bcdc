"""The tuner process: takes jobs from the queue and runs several at once."""
