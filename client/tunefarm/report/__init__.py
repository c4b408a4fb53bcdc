"""What happened in a job, as figures, plots and one HTML page that needs nothing else."""
