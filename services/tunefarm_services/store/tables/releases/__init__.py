"""The tables of release repositories."""
