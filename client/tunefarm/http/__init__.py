"""The HTTP client: each call is described once, and carried out by a blocking or an async transport."""
