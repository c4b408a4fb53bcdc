"""Commands about the whole farm."""
