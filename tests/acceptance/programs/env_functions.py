"""Registers the functions that the mixed module calls."""

import numpy as np
import tvm


@tvm.register_global_func("env.linear", override=True)
def linear(x, w, b, out):
    out.copyfrom(x.numpy() @ w.numpy().T + b.numpy())


@tvm.register_global_func("env.relu", override=True)
def relu(x, out):
    out.copyfrom(np.maximum(x.numpy(), 0))
