"""The search as a library: it selects the next candidates to measure and decides when to stop.

This package contains spaces, strategies, features, the cost model, candidate selection, the budget across tasks, and
the loop that connects them to a farm. It does no I/O: farm, records and clock are ports that the caller implements.
"""
