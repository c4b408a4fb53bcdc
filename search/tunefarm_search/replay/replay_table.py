"""Measurements recorded once, to evaluate strategies."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Space, Trace
from tunefarm_search.tvm.trace import steps_of


@dataclass(frozen=True)
class RecordedTrial:
    """One measured point: decisions in the order of the sketch's sampling instructions.

    ``latency_s`` is None for a failure; ``build_s`` is the build time in seconds.
    """

    sketch: int
    decisions: tuple[Any, ...]
    latency_s: float | None
    build_s: float


class MissingMeasurement(LookupError):
    """Raised for a candidate that the table does not contain; no result is invented for it."""


@dataclass(frozen=True)
class ReplayTable:
    """Measured points of one space.

    Attributes:
        is_exhaustive: whether every point of the space was measured; otherwise it is a sample.
    """

    name: str
    module_json: str
    target: Target
    is_exhaustive: bool
    sketches: tuple[Sketch, ...]
    trials: tuple[RecordedTrial, ...]

    @property
    def space(self) -> Space:
        """The recorded sketches as a space of their own."""
        return Space(automatic=False, sketches=self.sketches)

    @property
    def best_latency_s(self) -> float:
        """The lowest recorded latency."""
        return min(trial.latency_s for trial in self.trials if trial.latency_s is not None)

    def traces(self) -> tuple[Trace, ...]:
        """All recorded points as traces without postprocessors' instructions."""
        return tuple(trace_with(self.sketches[trial.sketch], trial.decisions) for trial in self.trials)

    def look_up(self, trace: Trace) -> RecordedTrial:
        """The recorded result of a trace.

        Raises:
            MissingMeasurement: it was not measured.
        """
        steps = steps_of(trace)
        decisions = [steps.decisions.get(number) for number in steps.sampling]
        found = self._by_key.get((steps.sketch.text, canonical_json(decisions)))
        if found is None:
            raise MissingMeasurement(f"{self.name} contains no measurement for the decisions {decisions}")
        return found

    def to_json(self) -> str:
        """The table as JSON text, one trial a line."""
        head = {
            "name": self.name,
            "module_json": self.module_json,
            "target": self.target.model_dump(mode="json"),
            "is_exhaustive": self.is_exhaustive,
            "sketches": [sketch.text for sketch in self.sketches],
        }
        lines = [canonical_json([t.sketch, list(t.decisions), t.latency_s, round(t.build_s, 4)]) for t in self.trials]
        return json.dumps(head, indent=1)[:-2] + ',\n "trials": [\n' + ",\n".join(lines) + "\n]}\n"

    @classmethod
    def from_json(cls, text: str) -> "ReplayTable":
        """Parse the output of ``to_json``."""
        value = json.loads(text)
        return cls(
            value["name"],
            value["module_json"],
            Target.model_validate(value["target"]),
            bool(value["is_exhaustive"]),
            tuple(Sketch(text=sketch) for sketch in value["sketches"]),
            tuple(RecordedTrial(t[0], tuple(t[1]), t[2], t[3]) for t in value["trials"]),
        )

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], RecordedTrial]:
        return {(self.sketches[t.sketch].text, canonical_json(list(t.decisions))): t for t in self.trials}


def trace_with(sketch: Sketch, decisions: Sequence[Any]) -> Trace:
    """The trace of a sketch with decisions in the order of its sampling instructions."""
    numbered = [[n, value] for n, value in zip(steps_of(sketch).sampling, decisions, strict=True)]
    return Trace.from_json([json.loads(sketch.text)[0], numbered])
