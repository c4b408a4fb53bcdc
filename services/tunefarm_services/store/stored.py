"""What the store answers with, beyond the common nouns."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.measurement import Candidate, Dispatch, Measurement

LOCAL_TENANT: Final = "local"
"""The tenant of every row in embedded mode."""

TENANT_STREAM: Final = ""
"""In place of a job id: the stream of events that belong to a tenant and to no job, such as retractions."""


class TrialState(StrEnum):
    """Whether the latest attempt of a trial has a result."""

    DISPATCHED = "dispatched"
    DONE = "done"


class JobRequest(StrEnum):
    """What a user wants of a job that someone else works on now."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"


class StoredTrial(Frozen):
    """A trial as it is resumed: the candidate, its latest attempt, and what that attempt gave, if anything.

    Only attempts for the purpose of searching are told here. A trial in state dispatched whose ``dispatch`` has an
    older fence than the lease is open for its second attempt.
    """

    candidate: Candidate
    state: TrialState
    dispatch: Dispatch
    measurement: Measurement | None


class StoredModel(Frozen):
    """A cost model as it was saved after ``trials`` trials."""

    model_json: bytes = Field(repr=False)
    trials: int
    created_at: str


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
    """How much the store holds for one tenant. ``blob_bytes`` and ``blobs`` are over all tenants."""

    revision: str
    rows: dict[str, int]
    jobs_by_state: dict[str, int]
    blobs: int
    blob_bytes: int
