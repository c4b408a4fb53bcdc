"""Data types that the store returns, beyond the common nouns."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Candidate, Dispatch, Measurement, TrialState
from tunefarm_schemas.tuning.workload import TensorArgument

LOCAL_TENANT: Final = "local"
"""The tenant of every row in embedded mode."""

TENANT_STREAM: Final = ""
"""In place of a job id: the event stream of the tenant itself, such as retractions."""


class JobRequest(StrEnum):
    """A user's request to the owner of a leased job."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"


class StoredTrial(Frozen):
    """A trial as a resumed search sees it: the candidate, its latest attempt, and that attempt's measurement, if any.

    Only attempts to search are included. A trial in state dispatched whose ``dispatch`` has an older fence than the
    lease is open for its second attempt.
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
    """A cost model as saved after ``trials`` trials."""

    model_json: bytes = Field(repr=False)
    trials: int
    created_at: str


class RetentionPolicy(Frozen):
    """How long data is kept after its last use. None keeps it for ever."""

    trials_days: float | None = Field(default=None, ge=0)
    """After the last measurement of an exploration that no job holds."""
    events_days: float | None = Field(default=None, ge=0)
    """After the end of the job."""
    uploads_hours: float | None = Field(default=None, ge=0)
    """After the beginning of an upload, complete or not."""
    idempotency_hours: float | None = Field(default=24.0, ge=0)
    """After the first use of a key."""
    lanes_days: float | None = Field(default=None, ge=0)
    """After the last heartbeat of a lane that is lost, drained or refused."""


class RetentionReport(Frozen):
    """How many rows of each kind retention removed."""

    trials: int = 0
    measurements: int = 0
    events: int = 0
    uploads: int = 0
    idempotency_keys: int = 0
    lanes: int = 0


class GarbageReport(Frozen):
    """Result of a collection of unreferenced blobs."""

    removed: int
    freed_bytes: int
    kept: int


class IntegrityReport(Frozen):
    """Problems of the database and the blobs, one sentence each; empty if there are none."""

    problems: tuple[str, ...]
    blobs_checked: int


class StoreStatistics(Frozen):
    """Counts of one tenant's rows, or of all. ``blob_bytes`` and ``blobs`` are over all tenants."""

    revision: str
    rows: dict[str, int]
    jobs_by_state: dict[str, int]
    blobs: int
    blob_bytes: int
