"""Models whose inputs have sizes that are known at a call: one entry for each bucket of sizes."""

from collections.abc import Mapping

from tunefarm_schemas.frozen import Frozen


class DimensionPlace(Frozen):
    """Where a dynamic dimension is: an axis of a tensor, by the tensor's position among inputs or outputs.

    The extent of the axis is ``factor`` times the size of the dimension.
    """

    tensor: int
    axis: int
    factor: int = 1


class DynamicDimension(Frozen):
    """A dimension whose size is known at a call.

    Attributes:
        name: as its user gave it.
        sizes: of its buckets, ascending.
        inputs: where inputs have it.
        outputs: where outputs have it; empty for models that serve exact sizes only.
        is_splittable: whether rows are independent of each other, so that larger inputs are served by several calls.
        regret: of chosen sizes, by how much a size may be slower in its bucket than alone, as predicted from the times
            of builds without trials: 0.05 is 5%. None if the user named the sizes.
    """

    name: str
    sizes: tuple[int, ...]
    inputs: tuple[DimensionPlace, ...]
    outputs: tuple[DimensionPlace, ...] = ()
    is_splittable: bool = False
    regret: float | None = None


class SizeBucket(Frozen):
    """The entry that serves inputs up to ``sizes``, one for each dimension."""

    sizes: tuple[int, ...]
    entry: str


class DynamicShape(Frozen):
    """The dynamic dimensions of a model, and a bucket for each combination of their sizes.

    Attributes:
        dimensions: in the order of the sizes of buckets.
        buckets: each combination once.
        is_exact: inputs are not padded; only the sizes of buckets are served.
        padding: what inputs are padded with, by name; zero for others.
    """

    dimensions: tuple[DynamicDimension, ...]
    buckets: tuple[SizeBucket, ...]
    is_exact: bool = False
    padding: Mapping[str, float] = {}
