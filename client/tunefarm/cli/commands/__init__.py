"""One file per command. They parse and print, and import the code that does the work when they run."""
