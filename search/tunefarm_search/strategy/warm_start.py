"""The first proposals of a search: hand-written schedules, and the best of similar workloads.

1. Replay the given traces. Those that apply come first.
2. For each trace of a similar workload, find the sketch with the same instructions and data flow.
3. Replace each factor of its decisions by the nearest divisor of the extent, and propose the first few of these points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tunefarm_schemas.tuning.measurement import CandidateOrigin
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.decisions import SketchSpace
from tunefarm_search.space.scheduling import Point
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_selector import CandidateSelector, RankedPoint
from tunefarm_search.strategy.protocol import Proposal
from tunefarm_search.tvm.trace import TraceSteps, steps_of


@dataclass(frozen=True)
class WarmStartConfig:
    """The constants of the first proposals.

    Attributes:
        max_near_traces: number of schedules of similar workloads that are proposed: one batch, so that
            the search's own proposals follow soon.
    """

    max_near_traces: int = 8


DEFAULTS = WarmStartConfig()


def given_proposals(selector: CandidateSelector, traces: Sequence[Trace], origin: CandidateOrigin) -> list[Proposal]:
    """Proposals for those of the given traces that apply."""
    found = [selector.replay(trace, origin) for trace in traces]
    return [proposal for proposal in found if proposal is not None]


def near_proposals(
    space: SearchSpace, selector: CandidateSelector, traces: Sequence[Trace], config: WarmStartConfig = DEFAULTS
) -> list[Proposal]:
    """Proposals from traces of similar workloads, with each factor replaced by the nearest divisor of the extent."""
    ranked_points = []
    for trace in traces:
        point = nearest_point(space, trace)
        if point is not None:
            ranked_points.append(RankedPoint(point, CandidateOrigin.STORE))
    return selector.pick(ranked_points, config.max_near_traces)


def nearest_point(space: SearchSpace, trace: Trace) -> Point | None:
    """The point nearest to a trace of another workload, in the sketch of the same structure; None without one."""
    try:
        steps = steps_of(trace)
    except ValueError:
        return None
    for sketch in space.sketches:
        if _structure(sketch.steps) == _structure(steps) and _widths(sketch, steps):
            return Point(sketch.number, tuple(sketch.nearest_row(steps.decisions).tolist()))
    return None


def _structure(steps: TraceSteps) -> tuple[tuple[str, tuple[object, ...], tuple[str, ...]], ...]:
    """The instructions and their data flow, without block names and numbers that depend on the shape."""
    return tuple(
        (step.kind, tuple(name if isinstance(name, str) else None for name in step.inputs), step.outputs)
        for step in steps.instructions
    )


def _widths(sketch: SketchSpace, steps: TraceSteps) -> bool:
    """Whether every decision has as many factors as its column."""
    for column in sketch.columns:
        decision = steps.decisions.get(column.instruction)
        if column.kind == "tile" and not (isinstance(decision, list) and len(decision) == column.table.shape[1]):
            return False
    return True
