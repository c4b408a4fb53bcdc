"""Parameters of a workload, and how their contents are drawn."""

from typing import Literal

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.workload import TensorArgument

Distribution = Literal["normal", "positive"]
"""``normal``: zero mean, unit variance. ``positive``: between a half and one, for functions such as a square root."""


class Argument(Frozen):
    """One parameter with the constraints on its contents.

    ``holds_input``: the function reads its initial contents, which can be true of an output as well.
    ``index_extent``: the number of valid values, from zero, of integers that index another tensor; None for others.
    """

    tensor: TensorArgument
    holds_input: bool
    index_extent: int | None
