"""Workloads, targets, jobs, measurements and records."""
