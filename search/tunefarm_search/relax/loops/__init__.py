"""What makes loops of many small steps fast."""
