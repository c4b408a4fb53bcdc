"""Compiles models with dynamic dimensions: reads them for several sizes, and tests what padding changes."""
