"""Workloads, targets, devices, lanes and uploads."""
