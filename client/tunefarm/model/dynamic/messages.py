"""What the children that run models with dynamic dimensions are asked, and what they answer."""

from typing import Final

from tunefarm_schemas.frozen import Frozen

TIMES: Final = "tunefarm.model.dynamic.run_child:times"
PADDING: Final = "tunefarm.model.dynamic.run_child:padding"


class RunOrder(Frozen):
    """A compiled model to run, whose library is passed in sealed memory.

    ``functions`` and ``is_quantized`` are as of ``CompareOrder``. ``probe`` is the folder of the same model for exact
    sizes, whose library is passed after it.
    """

    folder: str
    probe: str | None = None
    functions: tuple[str, ...] = ()
    functions_file: str | None = None
    is_quantized: bool = False


class EntryTimes(Frozen):
    """Least seconds of a run of each entry, from interleaved runs, in the order of the manifest."""

    latencies_s: tuple[float, ...]


class PaddingChecked(Frozen):
    """Whether results of real rows do not depend on padded ones.

    ``problem`` says where they do; empty otherwise. ``splittable`` says of each dimension whether its rows are
    independent of each other.
    """

    problem: str
    splittable: tuple[bool, ...]
    worst_error: float
