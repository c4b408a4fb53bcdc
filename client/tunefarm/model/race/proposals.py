"""Which changes of a plan to try, the most promising first."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tunefarm.model.messages import UnitParts
from tunefarm.model.race.messages import Assignment, RegionParts

Times = Sequence[float]


def proposals(current: Assignment, times_s: Mapping[str | None, Times]) -> list[Assignment]:
    """Plans that give a piece of ``current`` to another library, or back to our kernels.

    A piece is a run of units that the other one computed faster, each by itself. Pieces are ordered by what they
    promise. The longest ones promise most; what of them is worth it follows as pieces of half their length.

    Args:
        current: the plan to change.
        times_s: by library, None for our kernels, the seconds of each unit when it runs by itself.
    """
    found: list[tuple[float, Assignment]] = []
    for library, own_s in times_s.items():
        gains_s = [
            0.0 if each == library else times_s[each][at] - own_s[at] if each in times_s else 0.0
            for at, each in enumerate(current)
        ]
        for first, end in _pieces(gains_s):
            changed = (*current[:first], *[library] * (end - first), *current[end:])
            found.append((sum(gains_s[first:end]), changed))
    found.sort(key=lambda each: -each[0])
    return list(dict.fromkeys(assignment for _, assignment in found))


def _pieces(gains_s: Sequence[float]) -> list[tuple[int, int]]:
    """Maximal runs of gains, and their halves, quarters and so on."""
    edges = [0, *(at for at in range(1, len(gains_s)) if (gains_s[at] > 0) != (gains_s[at - 1] > 0)), len(gains_s)]
    waiting = [(first, end) for first, end in pairwise(edges) if end > first and gains_s[first] > 0]
    pieces: list[tuple[int, int]] = []
    while waiting:
        first, end = waiting.pop()
        pieces.append((first, end))
        if end - first > 1:
            middle = (first + end) // 2
            waiting += [(first, middle), (middle, end)]
    return pieces


def unit_times(
    units: Sequence[UnitParts], library: str | None, regions: Sequence[RegionParts], functions_s: Mapping[str, float]
) -> Times:
    """The time of each unit in a profile of the program in which each unit runs by itself.

    Args:
        units: of the model.
        library: what ran the units; None for our kernels.
        regions: of the program, each of one unit.
        functions_s: seconds of a call, by function of the program.
    """
    if library is None:
        return [sum(functions_s.get(name, 0.0) for name in unit.functions) for unit in units]
    names = {region.units[0]: region.name for region in regions}
    return [functions_s.get(names.get(at, ""), float("inf")) for at in range(len(units))]
