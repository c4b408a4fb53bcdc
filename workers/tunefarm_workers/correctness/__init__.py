"""Whether a kernel computes what the untuned function computes."""
