"""What a second model costs after a related one, and what it costs alone."""
