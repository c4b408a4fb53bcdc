"""The worker's side of the broker: receives orders, sends replies and heartbeats."""
