"""Retention, garbage collection and inspection."""
