"""Verification of published releases. The service holds no private key."""
