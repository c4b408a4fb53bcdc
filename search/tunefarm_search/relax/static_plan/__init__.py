"""Plans of models that run without TVM: the order of kernel calls, and where each tensor stands."""
