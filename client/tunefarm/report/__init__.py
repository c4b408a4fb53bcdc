"""Reports of jobs: figures, plots, and a self-contained HTML page."""
