"""Pages for browsers: HTML in this folder, with scripts and styles of installed packages."""
