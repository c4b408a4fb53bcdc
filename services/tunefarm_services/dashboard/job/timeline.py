"""The seconds of trials in the Trace Event Format, which Perfetto and Chrome open."""

import heapq
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Final

from tunefarm_schemas.tuning.job import Exploration
from tunefarm_services.store.trials.point_repository import PointRepository, TimedAttempt

MAX_ATTEMPTS: Final = 20_000
_STAGES: Final = (("start", "start_s"), ("build", "build_s"), ("wait", "wait_s"), ("run", "run_s"))


def timeline_of(points: PointRepository, tenant: str, exploration: Exploration) -> str:
    """The latest attempts of an exploration, each with its stages, as JSON.

    An attempt ends when its result was stored. Attempts that overlap stand on several tracks, as few as possible.
    """
    attempts = points.attempts(tenant, exploration.exploration_id, MAX_ATTEMPTS)
    # As text at once: a dictionary for each of a hundred thousand events takes several times as long.
    events, named = ",".join(_events(attempts)), json.dumps({"exploration": exploration.exploration_id})
    return f'{{"displayTimeUnit":"ms","traceEvents":[{events}],"otherData":{named}}}'


def _events(attempts: Iterable[TimedAttempt]) -> Iterator[str]:
    spans = sorted((_span(each) for each in attempts), key=lambda span: span[0])
    free: list[tuple[float, int]] = []
    tracks = 0
    for begin_s, end_s, each in spans:
        if free and free[0][0] <= begin_s:
            track = heapq.heappop(free)[1]
        else:
            track = tracks = tracks + 1
        heapq.heappush(free, (end_s, track))
        yield from _attempt_events(each, begin_s - spans[0][0], track)


def _attempt_events(attempt: TimedAttempt, begin_s: float, track: int) -> Iterator[str]:
    arguments = _arguments(attempt.failure_reason or "timed", attempt.purpose, attempt.attempt)
    yield _event(f"candidate {attempt.candidate_number}", begin_s, _seconds(attempt), track, arguments)
    for stage, field in _STAGES:
        seconds = attempt.stages.get(field, 0.0)
        if seconds > 0:
            yield _event(stage, begin_s, seconds, track, "{}")
            begin_s += seconds


@lru_cache(maxsize=256)
def _arguments(outcome: str, purpose: str, attempt: int) -> str:
    return json.dumps({"outcome": outcome, "purpose": purpose, "attempt": attempt})


def _event(name: str, begin_s: float, seconds: float, track: int, arguments: str) -> str:
    times = f'"ts":{begin_s * 1e6:.1f},"dur":{seconds * 1e6:.1f}'
    return f'{{"name":"{name}","ph":"X",{times},"pid":1,"tid":{track},"args":{arguments}}}'


def _span(attempt: TimedAttempt) -> tuple[float, float, TimedAttempt]:
    end_s = datetime.fromisoformat(attempt.measured_at).timestamp()
    return end_s - _seconds(attempt), end_s, attempt


def _seconds(attempt: TimedAttempt) -> float:
    return sum(attempt.stages.values())
