"""The tuner's brain as a library: which candidate to measure next, and when to stop.

This package owns spaces, strategies, features, the cost model, candidate picking, the budget across tasks, and the
loop that ties them to a farm. It does no I/O: farm, records and clock are ports that its caller implements.
"""
