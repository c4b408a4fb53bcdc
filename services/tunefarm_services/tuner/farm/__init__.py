"""The farm as the tuner sees it: a port, and the lanes behind the broker."""
