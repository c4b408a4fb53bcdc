"""What the children of a race are asked, and what they answer."""

from collections.abc import Mapping
from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import EntryUpdates

TIME: Final = "tunefarm.model.race.timing_child:main"
Assignment = tuple[str | None, ...]
"""For each unit of a model the name of the library that runs it, or None for our kernels."""


class PlanOrder(Frozen):
    """A plan to cut the prepared model by.

    ``by_unit`` makes each unit a region of its own; ``is_final`` says to write the weights of this plan alone.
    """

    assignment: Assignment
    by_unit: bool = False
    is_final: bool = False


class RegionParts(Frozen):
    """A region without its ONNX model, which is one of the next messages. ``units`` are their positions."""

    name: str
    library: str
    operators: tuple[str, ...]
    units: tuple[int, ...]


class PlanParts(Frozen):
    """A model cut by a plan. Its bytecode is the next message, then come the ONNX models of ``regions``.

    ``calls`` are those of each function of the library in one run, summed over the entries.
    """

    regions: tuple[RegionParts, ...]
    calls: Mapping[str, int]
    entry_weights: Mapping[str, tuple[str, ...]]
    updated_inputs: tuple[EntryUpdates, ...]


class TimeOrder(Frozen):
    """A compiled model to run as often as the child is asked. Its library is passed in sealed memory."""

    folder: str
    functions: tuple[str, ...] = ()
    functions_file: str | None = None


class SampleOrder(Frozen):
    """Some runs of each entry to time. ``is_profile`` also gives the times of the functions that they call."""

    is_profile: bool = False


class RaceSample(Frozen):
    """The seconds of the fastest run of each entry, in order, and of the fastest call of each function."""

    entries_s: tuple[float, ...]
    functions_s: Mapping[str, float] = {}
