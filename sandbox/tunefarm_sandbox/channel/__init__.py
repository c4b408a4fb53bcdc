"""Channels by which a confined child and its parent exchange messages, outputs and files."""
