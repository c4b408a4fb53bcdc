"""Backup and restore of the whole store."""
