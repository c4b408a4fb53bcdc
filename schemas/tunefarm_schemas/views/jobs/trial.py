"""Views of tasks, trials and measurements."""

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.job import EffortSpent, Exploration
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    Failed,
    Measurement,
    Result,
    Stages,
    Timing,
    TrialState,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task


class TaskView(BaseModel):
    """A task of a job and its progress. ``exploration_id`` is null until a tuner works on it."""

    model_config = ConfigDict(frozen=True)

    position: int
    workload_id: str
    target_id: str
    name: str
    weight: float
    exploration_id: str | None
    device_class_id: str | None
    spent: EffortSpent | None
    best_latency_s: float | None

    @classmethod
    def of(cls, position: int, task: Task, exploration: Exploration | None) -> "TaskView":
        """The view of ``task``."""
        return cls(
            position=position,
            workload_id=task.workload_id,
            target_id=task.target_id,
            name=task.name,
            weight=task.weight,
            exploration_id=None if exploration is None else exploration.exploration_id,
            device_class_id=None if exploration is None else exploration.key.device_class_id,
            spent=None if exploration is None else exploration.spent,
            best_latency_s=None if exploration is None else exploration.best_latency_s,
        )


class TrialView(BaseModel):
    """A trial: the candidate and its result. ``failure`` has the reason if it has no timing."""

    model_config = ConfigDict(frozen=True)

    exploration_id: str
    number: int
    trace: Trace
    origin: CandidateOrigin
    predicted_score: float | None
    state: TrialState
    attempt: int
    result: Result | None
    stages: Stages | None
    latency_s: float | None
    failure: TrialFailure | None
    worst_error: float | None

    @classmethod
    def of(cls, candidate: Candidate, state: TrialState, attempt: int, measurement: Measurement | None) -> "TrialView":
        """The view of ``candidate`` after its latest attempt."""
        result = None if measurement is None else measurement.result
        return cls(
            exploration_id=candidate.exploration_id,
            number=candidate.number,
            trace=candidate.trace,
            origin=candidate.origin,
            predicted_score=candidate.predicted_score,
            state=state,
            attempt=attempt,
            result=result,
            stages=None if measurement is None else measurement.stages,
            latency_s=result.latency_s if isinstance(result, Timing) else None,
            failure=result.failure if isinstance(result, Failed) else None,
            worst_error=None if measurement is None else measurement.worst_error,
        )


class MeasurementView(BaseModel):
    """The result of one attempt of a job, with its workload."""

    model_config = ConfigDict(frozen=True)

    workload_id: str
    exploration_id: str
    candidate_number: int
    attempt: int
    result: Result
    stages: Stages
    worst_error: float | None
    inputs_checked: int
    peak_memory_bytes: int

    @classmethod
    def of(cls, workload_id: str, measurement: Measurement) -> "MeasurementView":
        """The view of ``measurement``."""
        return cls(
            workload_id=workload_id,
            **{name: getattr(measurement, name) for name in cls.model_fields if name != "workload_id"},
        )
