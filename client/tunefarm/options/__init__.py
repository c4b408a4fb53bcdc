"""Options that several commands and the Python API share."""
