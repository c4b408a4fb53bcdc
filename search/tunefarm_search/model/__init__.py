"""Predictions of latency: the analytical cost and the learned cost model."""
