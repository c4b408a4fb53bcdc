"""The tuner's farm port, and its implementation by lanes behind a broker."""
