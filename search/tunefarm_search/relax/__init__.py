"""Whole models as Relax modules: prepared for scheduling, split into tasks, put together and built."""
