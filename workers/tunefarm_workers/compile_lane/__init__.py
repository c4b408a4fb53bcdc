"""Compiling for lanes of other hosts: what such a lane does, and how those reach it that have libraries made there."""
