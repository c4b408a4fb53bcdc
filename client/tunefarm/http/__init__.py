"""The HTTP client: one description of every call, carried by a blocking and by an awaiting transport."""
