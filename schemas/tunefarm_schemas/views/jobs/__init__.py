"""Views of jobs: tasks, trials, progress, results."""
