"""From what a user names on the command line to workloads, a target and a space.

``module_source`` and ``intake_request`` are light and run in the command. ``child`` and what it imports run in a
confined process that may die, because reading a user's file means running it.
"""
