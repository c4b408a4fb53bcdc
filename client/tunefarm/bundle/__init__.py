"""Models as bundles: kernels, a plan and weights for devices without TVM."""
