"""The seconds of trials in the Trace Event Format, which Perfetto and Chrome open."""

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from tunefarm_schemas.tuning.job import Exploration
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_services.store import Store
from tunefarm_services.store.trials.point_repository import TimedAttempt

MAX_ATTEMPTS: Final = 20_000
_STAGES: Final = (("start", "start_s"), ("build", "build_s"), ("wait", "wait_s"), ("run", "run_s"))


def timeline_of(store: Store, tenant: str, exploration: Exploration) -> dict[str, object]:
    """The latest attempts of an exploration, each with its stages.

    An attempt ends when its result was stored. Attempts that overlap stand on several tracks, as few as possible.
    """
    attempts = store.points.attempts(tenant, exploration.exploration_id, MAX_ATTEMPTS)
    events = list(_events(attempts))
    return {"displayTimeUnit": "ms", "traceEvents": events, "otherData": {"exploration": exploration.exploration_id}}


def _events(attempts: Iterable[TimedAttempt]) -> Iterable[dict[str, object]]:
    spans = sorted(((_begin_s(each), each) for each in attempts), key=lambda span: span[0])
    if not spans:
        return
    origin_s = spans[0][0]
    free: list[tuple[float, int]] = []
    tracks = 0
    for begin_s, each in spans:
        if free and free[0][0] <= begin_s:
            track = heapq.heappop(free)[1]
        else:
            track, tracks = tracks, tracks + 1
        heapq.heappush(free, (_end_s(each), track))
        yield from _attempt_events(each.measurement, begin_s - origin_s, track)


def _attempt_events(measurement: Measurement, begin_s: float, track: int) -> Iterable[dict[str, object]]:
    result = measurement.result
    outcome = result.failure.reason.value if isinstance(result, Failed) else "timed"
    whole_s = _seconds(measurement)
    name = f"candidate {measurement.candidate_number}"
    arguments = {"outcome": outcome, "purpose": measurement.purpose.value, "attempt": measurement.attempt}
    yield _complete(name, begin_s, whole_s, track, arguments)
    for stage, field in _STAGES:
        seconds = getattr(measurement.stages, field)
        if seconds > 0:
            yield _complete(stage, begin_s, seconds, track, {})
            begin_s += seconds


def _complete(
    name: str, begin_s: float, seconds: float, track: int, arguments: Mapping[str, object]
) -> dict[str, object]:
    return {
        "name": name,
        "ph": "X",
        "ts": round(begin_s * 1e6, 1),
        "dur": round(seconds * 1e6, 1),
        "pid": 1,
        "tid": track + 1,
        "args": arguments,
    }


def _end_s(attempt: TimedAttempt) -> float:
    return datetime.fromisoformat(attempt.measured_at).timestamp()


def _begin_s(attempt: TimedAttempt) -> float:
    return _end_s(attempt) - _seconds(attempt.measurement)


def _seconds(measurement: Measurement) -> float:
    return sum(float(getattr(measurement.stages, field)) for _, field in _STAGES)
