"""Converts the modules, targets and schedules that users give into workloads, targets and spaces.

``module_source`` and ``intake_request`` do not import TVM and run in the command. ``child`` and its imports run in a
confined process, because reading a user's file means executing it.
"""
