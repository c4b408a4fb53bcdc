"""Devices, lanes, and the messages between farm and workers."""
