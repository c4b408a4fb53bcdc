"""What the store answers with, beyond the common nouns."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Candidate, Dispatch, Measurement, TrialState
from tunefarm_schemas.tuning.workload import TensorArgument

LOCAL_TENANT: Final = "local"
"""The tenant of every row in embedded mode."""

TENANT_STREAM: Final = ""
"""In place of a job id: the stream of events that belong to a tenant and to no job, such as retractions."""


class JobRequest(StrEnum):
    """What a user wants of a job that someone else works on now."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"


class StoredTrial(Frozen):
    """A trial as it is resumed: the candidate, its latest attempt, and what that attempt gave, if anything.

    Only attempts for the purpose of searching are told here. A trial in state dispatched whose ``dispatch`` has an
    older fence than the lease is open for its second attempt.
    """

    candidate: Candidate
    state: TrialState
    dispatch: Dispatch
    measurement: Measurement | None
    job_id: str
    """The job that made the latest attempt."""


class StoredWorkload(Frozen):
    """A workload without its module, for lists."""

    workload_id: str
    structural_hash: str
    tvm_version: str
    name: str
    arguments: tuple[TensorArgument, ...]
    floating_point_operations: float
    created_at: str


class StoredModel(Frozen):
    """A cost model as it was saved after ``trials`` trials."""

    model_json: bytes = Field(repr=False)
    trials: int
    created_at: str


class RetentionPolicy(Frozen):
    """For how long things are kept after they were last of use. None keeps them for ever."""

    trials_days: float | None = Field(default=None, ge=0)
    """Since the last measurement of an exploration that nobody works on."""
    events_days: float | None = Field(default=None, ge=0)
    """Since the end of their job."""
    uploads_hours: float | None = Field(default=None, ge=0)
    """Since an upload was begun, complete or not."""
    idempotency_hours: float | None = Field(default=24.0, ge=0)
    """Since the first use of a key."""
    lanes_days: float | None = Field(default=None, ge=0)
    """Since anything was heard of a lane that is lost, drained or refused."""


class RetentionReport(Frozen):
    """How many rows of each kind a retention removed."""

    trials: int = 0
    measurements: int = 0
    events: int = 0
    uploads: int = 0
    idempotency_keys: int = 0
    lanes: int = 0


class GarbageReport(Frozen):
    """What a collection of unreferenced blobs did."""

    removed: int
    freed_bytes: int
    kept: int


class IntegrityReport(Frozen):
    """Problems of the database and the blobs, each as a sentence; empty when all is well."""

    problems: tuple[str, ...]
    blobs_checked: int


class StoreStatistics(Frozen):
    """How much the store holds for one tenant, or for all. ``blob_bytes`` and ``blobs`` are over all tenants."""

    revision: str
    rows: dict[str, int]
    jobs_by_state: dict[str, int]
    blobs: int
    blob_bytes: int
