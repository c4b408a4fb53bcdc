"""Functions that need special inputs, caches or types."""

from tvm import te


def logarithm():
    source = te.placeholder((64, 64), name="A")
    return [source, te.compute((64, 64), lambda i, j: te.log(source[i, j] - 5.0), name="B")]


def lookup():
    table = te.placeholder((50, 64), name="T")
    rows = te.placeholder((32,), "int32", name="I")
    return [table, rows, te.compute((32, 64), lambda i, j: table[rows[i], j] * 2.0, name="O")]


def stream():
    """As much memory traffic as arithmetic, small enough for the caches."""
    source = te.placeholder((256, 512), name="A")
    return [source, te.compute((256, 512), lambda i, j: source[i, j] + 1.0, name="B")]


def brain_floats():
    left = te.placeholder((64, 64), "bfloat16", name="A")
    right = te.placeholder((64, 64), "bfloat16", name="B")
    axis = te.reduce_axis((0, 64), name="k")
    return [left, right, te.compute((64, 64), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C")]
