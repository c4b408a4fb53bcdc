"""The calls of the API, one file per resource."""
