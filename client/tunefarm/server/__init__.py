"""The service's processes, put together: the API, a tuner, and this host's device where there is no broker."""
