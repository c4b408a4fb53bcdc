"""The process that forks confined children, and the children."""
