"""Load tests of the service: a filled store, clients, event streams."""
