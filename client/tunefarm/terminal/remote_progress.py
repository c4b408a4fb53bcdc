"""The progress of a job on a service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tunefarm_schemas.views.jobs.progress import TaskTime


@dataclass(frozen=True)
class RemoteProgress:
    """The progress of a running job, from its latest progress event."""

    stage: str
    task_name: str
    elapsed_s: float
    trials_done: int
    trials_budget: int
    best_latency_s: float | None
    untuned_latency_s: float | None
    untuned_is_rough: bool
    trials_per_s: float
    seconds_left: float | None
    failures: dict[str, int] = field(default_factory=dict)
    model_rank_accuracy: float | None = None
    doing: str = ""
    waits_for: str = ""
    tasks: tuple[TaskTime, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "RemoteProgress":
        """Read the data of an event; missing fields are unknown."""
        return cls(
            stage=str(data.get("stage", "")),
            task_name=str(data.get("task_name", "")),
            elapsed_s=float(data.get("elapsed_s") or 0.0),
            trials_done=int(data.get("trials_done") or 0),
            trials_budget=int(data.get("trials_budget") or 0),
            best_latency_s=data.get("best_latency_s"),
            untuned_latency_s=data.get("untuned_latency_s"),
            untuned_is_rough=bool(data.get("untuned_is_rough")),
            trials_per_s=float(data.get("trials_per_s") or 0.0),
            seconds_left=data.get("seconds_left"),
            failures=dict(data.get("failures") or {}),
            model_rank_accuracy=data.get("model_rank_accuracy"),
            doing=str(data.get("doing") or ""),
            waits_for=str(data.get("waits_for") or ""),
            tasks=tuple(TaskTime.model_validate(each, extra="ignore") for each in data.get("tasks") or ()),
        )
