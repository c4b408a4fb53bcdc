"""Decisions about a fleet of edge devices, as pure functions: who belongs to a stage, when it advances, what to run."""
