"""The calls of the API, a file for each noun."""
