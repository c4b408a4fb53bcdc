"""Converters of StableHLO's operators to Relax."""
