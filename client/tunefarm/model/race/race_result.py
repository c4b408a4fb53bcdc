"""What a race of plans came to."""

from collections.abc import Mapping
from dataclasses import dataclass

from tunefarm.model.race.plan_folder import LibraryPlan
from tunefarm_schemas.frozen import JsonValue


@dataclass(frozen=True)
class TimedPlan:
    """A plan and its fastest runs.

    Attributes:
        latency_s: seconds of a run of each entry, summed; None if it has no time.
        problem: why it has none.
        entries_s: seconds of a run of each entry, in order.
    """

    plan: LibraryPlan
    latency_s: float | None
    problem: str = ""
    entries_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class RacedUnit:
    """The times of one unit by itself.

    Attributes:
        functions: that it calls.
        times_s: seconds of a call, by what ran it; empty if there was no time for it.
        runner: what runs it in the plan that ships.
    """

    functions: tuple[str, ...]
    times_s: Mapping[str, float]
    runner: str


@dataclass(frozen=True)
class RaceResult:
    """What a race came to.

    Attributes:
        winner: the plan to ship.
        timed: our kernels first, then all other plans in the order in which they were tried.
        took_s: seconds.
        units: of the model.
    """

    winner: TimedPlan
    timed: tuple[TimedPlan, ...]
    took_s: float
    units: tuple[RacedUnit, ...] = ()

    @property
    def gain(self) -> float:
        """How many times as fast the winner is as our kernels alone."""
        ours_s, winner_s = self.timed[0].latency_s, self.winner.latency_s
        return ours_s / winner_s if ours_s and winner_s else 1.0

    def figures(self) -> dict[str, JsonValue]:
        """What ``--json`` prints of it."""
        return {
            "winner": self.winner.plan.name,
            "gain": self.gain,
            "took_s": self.took_s,
            "plans": [
                {
                    "plan": each.plan.name,
                    "latency_s": each.latency_s,
                    "entries_s": list(each.entries_s),
                    "problem": each.problem,
                }
                for each in self.timed
            ],
            "units": [
                {"functions": list(each.functions), "times_s": dict(each.times_s), "runner": each.runner}
                for each in self.units
            ],
        }
