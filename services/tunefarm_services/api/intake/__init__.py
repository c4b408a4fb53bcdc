"""Modules, traces and targets of requests, read in a confined child."""
