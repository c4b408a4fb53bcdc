"""The processes of the service: the API, a tuner, and without a broker this host's device."""
