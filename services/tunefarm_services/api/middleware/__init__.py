"""Middleware of every request, as plain ASGI, in this order: log, token and rate, body, idempotency."""
