"""Random input to every entry point of untrusted data; see ``fuzz.__main__``."""
