"""Tokens, usage and idempotency keys of tenants."""
