"""Routes of tuning records."""
