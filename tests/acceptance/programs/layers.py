"""Two layers of batch size one whose weights may have any layout."""

from tvm import te


def dense():
    data, weight = te.placeholder((1, 512), name="X"), te.placeholder((256, 512), name="W")
    k = te.reduce_axis((0, 512), name="k")
    return [
        data,
        weight,
        te.compute(
            (1, 256),
            lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k),
            name="C",
            attrs={"layout_free_placeholders": [weight]},
        ),
    ]


def convolution():
    data, weight = te.placeholder((1, 10, 10, 16), name="X"), te.placeholder((3, 3, 16, 32), name="W")
    y, x, c = (te.reduce_axis((0, extent), name=name) for name, extent in (("y", 3), ("x", 3), ("c", 16)))
    return [
        data,
        weight,
        te.compute(
            (1, 8, 8, 32),
            lambda n, h, w, o: te.sum(data[n, h + y, w + x, c] * weight[y, x, c, o], axis=[y, x, c]),
            name="C",
            attrs={"layout_free_placeholders": [weight]},
        ),
    ]
