"""Random input against every door that foreign data comes in by; see ``fuzz.__main__``."""
