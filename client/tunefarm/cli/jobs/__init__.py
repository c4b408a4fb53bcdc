"""Commands that create jobs from others, and compare jobs."""
