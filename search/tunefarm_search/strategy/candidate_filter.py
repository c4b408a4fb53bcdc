"""Prevents candidates from being tried twice.

1. Look up the scheduled function by structural hash. Equal traces, or else structural equality, confirm a match.
2. Admit a function that is not known.
3. Admit a known one again only after a failure that it may not have caused, and only up to a number of attempts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import tvm_ffi

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.scheduling import Point, Scheduled


@dataclass(frozen=True)
class FilterConfig:
    """The constants of the filter.

    Attributes:
        max_attempts: a candidate is measured at most this often. A failure of the machine seldom hits the same
            candidate twice, so that after a second one the candidate is the likely cause.
    """

    max_attempts: int = 2


DEFAULTS = FilterConfig()


@dataclass
class _KnownFunction:
    """One scheduled function: traces that result in it, and how often it was proposed."""

    traces: list[Trace]
    attempts: int = 1
    may_retry: bool = False


class CandidateFilter:
    """Remembers tried candidates by structural hash of the scheduled function, confirmed by structural equality.

    Args:
        module_of: returns TVM's scheduled module of a trace, to distinguish a repeat from a hash collision.
        config: the constants.
    """

    def __init__(self, module_of: Callable[[Trace], Any], config: FilterConfig = DEFAULTS) -> None:
        self._module_of = module_of
        self._config = config
        self._known: dict[str, list[_KnownFunction]] = {}
        self._points: set[Point] = set()

    def is_new_point(self, point: Point) -> bool:
        """Whether a point was not tried before, whether or not it applied."""
        return point not in self._points

    def note_point(self, point: Point) -> None:
        """Remember that a point was tried."""
        self._points.add(point)

    def admit(self, scheduled: Scheduled) -> bool:
        """Whether to measure this; if so, it now counts as tried."""
        known = self._find(scheduled)
        if known is None:
            self._known.setdefault(scheduled.module_hash, []).append(_KnownFunction([scheduled.trace]))
            return True
        if known.may_retry and known.attempts < self._config.max_attempts:
            known.may_retry, known.attempts = False, known.attempts + 1
            return True
        known.traces.append(scheduled.trace)
        return False

    def note_tried(self, module_hash: str, traces: Iterable[Trace]) -> None:
        """Remember traces that the store contains; a repeated trace counts as another attempt."""
        for trace in traces:
            known = self._find(Scheduled(None, trace, module_hash))
            if known is None:
                self._known.setdefault(module_hash, []).append(_KnownFunction([trace]))
            else:
                known.traces.append(trace)
                known.attempts += 1

    def note_failure(self, scheduled: Scheduled, failure: TrialFailure) -> None:
        """Allow one more attempt if the candidate may not have caused the failure."""
        known = self._find(scheduled)
        if known is None or not failure.may_be_tried_again:
            return
        if known.attempts < self._config.max_attempts:
            known.may_retry = True
            if scheduled.point is not None:
                self._points.discard(scheduled.point)

    def _find(self, scheduled: Scheduled) -> _KnownFunction | None:
        """The entry of the same function, which a hash alone does not prove."""
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
