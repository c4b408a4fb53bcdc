"""Built-in workloads, for trying tunefarm and for comparisons.

``catalogue`` lists names and shapes without importing TVM; ``expressions`` builds the functions with TVM;
``numpy_equivalent`` computes the same with NumPy.
"""
