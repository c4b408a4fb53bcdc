"""Overhead and scaling of the farm."""
