"""What pages, routes and commands show of a record: its code, and its latency in the field."""
