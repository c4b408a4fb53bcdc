"""Devices, lanes, and what farm and workers send each other."""
