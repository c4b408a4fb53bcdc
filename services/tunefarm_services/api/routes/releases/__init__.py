"""Routes of the release repository: publication, and what devices read."""
