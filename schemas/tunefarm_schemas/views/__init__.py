"""Responses of the API that are not stored types: written by the service, read by its clients."""
