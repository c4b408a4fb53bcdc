"""One script for each revision, oldest first by its name."""
