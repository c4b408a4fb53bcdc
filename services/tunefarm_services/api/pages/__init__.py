"""Pages that the API shows to browsers: HTML of this folder, with scripts and styles of installed packages."""
