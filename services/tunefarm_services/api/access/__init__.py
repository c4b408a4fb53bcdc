"""Who is asking, and how often."""
