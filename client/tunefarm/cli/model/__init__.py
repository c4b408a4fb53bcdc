"""Commands of whole models."""
