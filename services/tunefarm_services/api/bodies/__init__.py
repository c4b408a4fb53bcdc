"""What requests carry, one model each, with examples for readers of the OpenAPI document."""
