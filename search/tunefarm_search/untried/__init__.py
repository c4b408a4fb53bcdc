"""Schedules of functions for CPUs before anything is measured."""
