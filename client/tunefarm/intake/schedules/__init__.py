"""Schedules and tensor intrinsics of users: Python functions, traces, and files that register intrinsics."""
