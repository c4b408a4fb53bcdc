"""Sizes of dynamic dimensions: which buckets there are, and which of them serves a call."""
