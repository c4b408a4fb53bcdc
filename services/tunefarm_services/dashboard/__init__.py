"""The pages of the service for browsers, rendered on the server."""
