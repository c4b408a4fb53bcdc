"""Models built from records: compiled beside their build without a trial, and timed; the faster one ships."""
