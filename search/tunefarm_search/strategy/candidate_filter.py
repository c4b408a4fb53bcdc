"""No candidate twice."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tvm_ffi

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.scheduling import Point, Scheduled

MAX_ATTEMPTS = 2


@dataclass
class _KnownPoints:
    """Traces that share a hash, and how often each was handed out."""

    traces: list[Trace]
    attempts: int = 1
    is_open: bool = False


class CandidateFilter:
    """Remembers what was tried, by structural hash of the scheduled function, confirmed by structural equality.

    Args:
        module_of: gives TVM's scheduled module of a trace, to tell a repeat from a collision of hashes.
    """

    def __init__(self, module_of: Callable[[Trace], Any]) -> None:
        self._module_of = module_of
        self._known: dict[str, list[_KnownPoints]] = {}
        self._points: set[Point] = set()

    def is_new_point(self, point: Point) -> bool:
        """Whether a point was not looked at before, fit or not."""
        return point not in self._points

    def note_point(self, point: Point) -> None:
        """Remember that a point was looked at."""
        self._points.add(point)

    def admit(self, scheduled: Scheduled) -> bool:
        """Whether to measure this; if so, it counts as tried from now on."""
        known = self._find(scheduled)
        if known is None:
            self._known.setdefault(scheduled.module_hash, []).append(_KnownPoints([scheduled.trace]))
            return True
        if known.is_open and known.attempts < MAX_ATTEMPTS:
            known.is_open, known.attempts = False, known.attempts + 1
            return True
        known.traces.append(scheduled.trace)
        return False

    def note_tried(self, module_hash: str, traces: Iterable[Trace]) -> None:
        """Remember what the store says was tried, each as often as it was."""
        for trace in traces:
            known = self._find(Scheduled(None, trace, module_hash))
            if known is None:
                self._known.setdefault(module_hash, []).append(_KnownPoints([trace]))
            else:
                known.traces.append(trace)
                known.attempts += 1

    def note_failure(self, scheduled: Scheduled, failure: TrialFailure) -> None:
        """Let a candidate be tried once more if its failure may have had another cause."""
        known = self._find(scheduled)
        if known is not None and failure.may_be_tried_again and known.attempts < MAX_ATTEMPTS:
            known.is_open = True
            if scheduled.point is not None:
                self._points.discard(scheduled.point)

    def _find(self, scheduled: Scheduled) -> _KnownPoints | None:
        """What has the same hash and is the same function."""
        entries = self._known.get(scheduled.module_hash, [])
        for entry in entries:
            if any(trace.text == scheduled.trace.text for trace in entry.traces):
                return entry
        if not entries:
            return None
        module = self._module_of(scheduled.trace)
        for entry in entries:
            if tvm_ffi.structural_equal(module, self._module_of(entry.traces[0])):
                return entry
        return None
