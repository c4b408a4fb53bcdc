"""A parameter of a workload as a measuring host sees it, and how its contents are drawn."""

from typing import Literal

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.workload import TensorArgument

Distribution = Literal["normal", "positive"]
"""``normal``: zero mean, unit variance. ``positive``: between a half and one, for functions such as a square root."""


class Argument(Frozen):
    """One parameter, with what its contents have to obey.

    ``holds_input`` is true when the function reads what the caller left in it, which an output may do as well.
    ``index_extent`` is the number of valid values, from zero, of integers that address another tensor; None for others.
    """

    tensor: TensorArgument
    holds_input: bool
    index_extent: int | None
