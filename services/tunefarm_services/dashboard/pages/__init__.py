"""The pages, one file for each thing that they show."""
