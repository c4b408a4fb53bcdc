"""Authorisation of callers, and their request rates."""
