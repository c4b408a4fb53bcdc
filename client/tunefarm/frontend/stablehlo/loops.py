"""Loops and regions before they are converted: how often they run, how large they are, what they read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tunefarm.frontend.stablehlo.scalars import Scalar, evaluate

MAX_COUNTED: Final = 100_000
"""A loop with more iterations than that counts as one whose number of iterations is unknown."""


def known_trips(op: Any, initial: Sequence[Scalar | None], outer: Mapping[Any, Scalar]) -> int | None:
    """How often a ``stablehlo.while`` runs; None if that depends on the input, or on more than scalars.

    Args:
        op: the loop.
        initial: the first values of its state, as far as they are known scalars.
        outer: the known scalars among the values that its regions read from outside.
    """
    condition_block, body = (region.blocks[0] for region in op.regions)
    condition = list(condition_block.operations)[-1].operands[0]
    yielded = list(list(body.operations)[-1].operands)
    state = {place: each for place, each in enumerate(initial) if each is not None}
    for trips in range(MAX_COUNTED):
        goes_on = evaluate(condition, _known(condition_block.arguments, state, outer))
        if goes_on is None:
            return None
        if not goes_on:
            return trips
        known = _known(body.arguments, state, outer)
        following = {place: evaluate(yielded[place], known) for place in state}
        state = {place: each for place, each in following.items() if each is not None}
    return None


def _known(arguments: Any, state: Mapping[int, Scalar], outer: Mapping[Any, Scalar]) -> dict[Any, Scalar]:
    return {**outer, **{arguments[place]: each for place, each in state.items()}}


def nested(regions: Any, callee: Callable[[Any], Any | None], walked: set[Any] | None = None) -> Iterator[Any]:
    """All operators of regions, and those of the regions and functions in them, each once.

    Args:
        regions: to walk.
        callee: the function that an operator calls, or None.
        walked: functions to leave out.
    """
    walked = set() if walked is None else walked
    for region in regions:
        for block in region.blocks:
            for op in block.operations:
                yield op
                yield from nested(op.regions, callee, walked)
                function = callee(op)
                if function is not None and function not in walked:
                    walked.add(function)
                    yield from nested(function.regions, callee, walked)


def free_values(regions: Any) -> list[Any]:
    """The values that regions read and do not define, each once, in the order of their use."""
    defined: set[Any] = set()
    read: dict[Any, None] = {}
    for region in regions:
        for block in region.blocks:
            defined.update(block.arguments)
            for op in block.operations:
                defined.update(op.results)
                read.update(dict.fromkeys(op.operands))
                read.update(dict.fromkeys(free_values(op.regions)))
    return [value for value in read if value not in defined]
