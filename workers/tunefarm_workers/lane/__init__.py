"""A lane: one device of a host, kept busy with candidates."""
