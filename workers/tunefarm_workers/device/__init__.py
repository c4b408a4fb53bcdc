"""Identity, speed and quarantine of devices."""
