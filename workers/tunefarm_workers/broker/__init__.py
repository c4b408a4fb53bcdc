"""A worker's side of the broker: orders in, replies and heartbeats out."""
