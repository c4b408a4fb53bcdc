"""One file for each command. They parse and print; what they do is done elsewhere, and imported when they run."""
