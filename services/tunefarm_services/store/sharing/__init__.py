"""What tenants of a sharing group take over from each other."""
