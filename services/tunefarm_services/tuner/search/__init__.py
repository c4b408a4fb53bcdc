"""The search: a confined child, and the session that connects it to farm and store."""
