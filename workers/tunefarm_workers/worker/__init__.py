"""The worker process, which serves one lane of the farm."""
