"""Modules, traces and targets in requests, read in a confined child."""
