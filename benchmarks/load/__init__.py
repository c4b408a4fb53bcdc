"""The service under load: a filled store, clients, streams of events."""
