"""Jobs beyond their rows: copies of them, comparisons, and whether a lane can run them."""
