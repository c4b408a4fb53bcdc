"""Request bodies, one model each, with examples for the OpenAPI document."""
