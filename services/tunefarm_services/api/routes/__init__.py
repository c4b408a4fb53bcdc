"""Routes, a file for each noun."""
