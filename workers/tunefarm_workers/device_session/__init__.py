"""Devices that are reached through one long-lived child: a graphics processor, or a board behind a connection.

Candidates are compiled in children that never touch the device, and handed to that child as libraries.
"""
