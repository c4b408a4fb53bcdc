"""The worker process: one lane of the farm, from its settings to its end."""
