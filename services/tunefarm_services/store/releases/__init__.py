"""What publishers of releases send: signed metadata, targets and files."""
