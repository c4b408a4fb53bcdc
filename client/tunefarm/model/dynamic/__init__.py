"""Models with dynamic dimensions: sizes of buckets, their entries, checks of padding, dispatch."""
