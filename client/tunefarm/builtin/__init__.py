"""Workloads that come with tunefarm, by name and shape, for a first try and for comparisons.

``catalogue`` knows names and shapes and is light; ``expressions`` builds them with TVM; ``numpy_equivalent`` computes
the same with numpy.
"""
