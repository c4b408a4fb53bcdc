"""What commands print and read on a terminal."""
