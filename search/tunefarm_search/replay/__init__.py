"""Recorded measurements that replace a farm, to compare strategies."""
