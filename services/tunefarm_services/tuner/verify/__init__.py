"""From the fastest candidates to a verified record."""
