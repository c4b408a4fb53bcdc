"""What answers carry beyond the common nouns."""
