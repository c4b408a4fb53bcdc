"""Edge devices that poll a service."""
