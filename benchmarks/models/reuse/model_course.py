"""The predicted time of a model over the device time of its search, from the store of a TUNEFARM_HOME."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Measurement, Timing
from tunefarm_services.store import LOCAL_TENANT, Store

DATABASE = "tunefarm.db"
_MEASURED = (
    "SELECT exploration_id, candidate_number, document FROM measurements WHERE purpose = 'search' "
    "ORDER BY measured_at, exploration_id, candidate_number, attempt"
)


class ModelCoursePoint(Frozen):
    """After a measurement: how much device time the search has taken, and the model's time as far as it is known.

    Attributes:
        trials: measured so far; another attempt at one counts as device time only.
        device_s: seconds for which candidates occupied a lane, building and running.
        model_s: calls times the lowest latency, summed over all tasks; None until each task has a timing.
    """

    trials: int
    device_s: float
    model_s: float | None


@dataclass(frozen=True)
class TrialCost:
    """What one attempt cost, and the latency that it gave, if any."""

    exploration_id: str
    candidate_number: int
    device_s: float
    latency_s: float | None


def trial_costs(home: Path) -> tuple[TrialCost, ...]:
    """All attempts of searches in the store, in the order of their results; none if there is no store yet."""
    path = home / DATABASE
    if not path.exists():
        return ()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60.0)) as connection:
        rows = connection.execute(_MEASURED).fetchall()
    return tuple(_cost(*row) for row in rows)


def _cost(exploration_id: str, candidate_number: int, document: str) -> TrialCost:
    measurement = Measurement.model_validate_json(document)
    timed_s = measurement.result.latency_s if isinstance(measurement.result, Timing) else None
    return TrialCost(exploration_id, candidate_number, measurement.stages.device_s, timed_s)


def latest_calls(home: Path) -> dict[str, float] | None:
    """The calls of each exploration in a run of the model of the latest job; None until all of them are opened."""
    if not (home / DATABASE).exists():
        return None
    store = Store.open(f"sqlite:///{home / DATABASE}", home / "blobs")
    try:
        jobs = store.jobs.page(LOCAL_TENANT, limit=10_000)
        if not jobs:
            return None
        job = max(jobs, key=lambda each: each.created_at)
        calls = {task.workload_id: task.weight for task in job.spec.tasks}
        opened = store.explorations.of_job(LOCAL_TENANT, job.job_id)
        found = {each.exploration_id: calls[each.key.workload_id] for each in opened}
        return found if len(found) == len(calls) else None
    finally:
        store.close()


def course(costs: Sequence[TrialCost], calls: Mapping[str, float], before: int) -> tuple[ModelCoursePoint, ...]:
    """A point for what was known before, after the first ``before`` costs, and one after each later one.

    Costs of other explorations than those of ``calls`` count as device time, too.
    """
    best_s: dict[str, float] = {}
    points = []
    tried: set[tuple[str, int]] = set()
    device_s = 0.0
    for number, cost in enumerate(costs):
        if number == before:
            points.append(ModelCoursePoint(trials=0, device_s=0.0, model_s=_model_s(best_s, calls)))
        if cost.latency_s is not None:
            best_s[cost.exploration_id] = min(cost.latency_s, best_s.get(cost.exploration_id, cost.latency_s))
        if number >= before:
            tried.add((cost.exploration_id, cost.candidate_number))
            device_s += cost.device_s
            points.append(ModelCoursePoint(trials=len(tried), device_s=device_s, model_s=_model_s(best_s, calls)))
    return tuple(points) or (ModelCoursePoint(trials=0, device_s=0.0, model_s=_model_s(best_s, calls)),)


def _model_s(best_s: Mapping[str, float], calls: Mapping[str, float]) -> float | None:
    if any(exploration_id not in best_s for exploration_id in calls):
        return None
    return sum(count * best_s[exploration_id] for exploration_id, count in calls.items())


def reached(points: Sequence[ModelCoursePoint], model_s: float) -> ModelCoursePoint | None:
    """The first point at which the model is at most this slow; None if there is none."""
    return next((point for point in points if point.model_s is not None and point.model_s <= model_s), None)
