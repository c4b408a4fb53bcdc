"""Figures as tables, plots and ratios with intervals."""
