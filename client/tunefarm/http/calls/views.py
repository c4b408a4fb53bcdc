"""What the service answers, as far as a client reads it. What it says besides is ignored."""

import json
from typing import Any

from pydantic import Field

from tunefarm.http.request import Answer
from tunefarm_schemas.failure import TrialFailure
from tunefarm_schemas.tuning.job import Effort, JobKind, JobOutcome, JobState
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import TensorArgument


class TaskOfJob(Answer):
    """A task as the job names it."""

    workload_id: str
    target_id: str
    name: str
    weight: float = 1.0


class JobSpecView(Answer):
    """What a job asks for."""

    kind: JobKind = "tune"
    tasks: tuple[TaskOfJob, ...] = ()
    effort: Effort | None = None
    strategy: str = ""
    priority: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    device_class_id: str | None = None
    untuned_functions: tuple[str, ...] = ()


class JobView(Answer):
    """A job. Times are RFC 3339, UTC."""

    job_id: str
    spec: JobSpecView = JobSpecView()
    state: JobState
    outcome: JobOutcome | None = None
    message: str = ""
    created_at: str
    finished_at: str | None = None
    notes: tuple[str, ...] = ()
    """What the service says of the target as it takes the job."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is done for it."""
        return self.state is JobState.FINISHED


class TrialView(Answer):
    """What was tried, and what came of it. Latencies are in seconds; ``origin`` says where the search took it from."""

    exploration_id: str
    number: int
    trace: Trace
    origin: str
    state: str
    latency_s: float | None = None
    failure: TrialFailure | None = None


class WorkloadView(Answer):
    """A workload without its module."""

    workload_id: str
    name: str
    structural_hash: str
    tvm_version: str
    arguments: tuple[TensorArgument, ...]
    floating_point_operations: float


class TargetView(Answer):
    """A target that the service knows. ``notes`` say what was filled in when it was checked."""

    target_id: str
    canonical: str
    kind: str = ""
    num_cores: int = 0
    notes: tuple[str, ...] = ()

    def attributes(self) -> dict[str, Any]:
        """What TVM takes to make it."""
        value: dict[str, Any] = json.loads(self.canonical)
        return value


class TargetPreset(Answer):
    """A target by a short name; ``target`` is None where the service fills it in by looking at a host."""

    name: str
    description: str = ""
    target: dict[str, object] | None = None


class DeviceClassView(Answer):
    """Hardware that gives the same numbers, as far as it is shown."""

    name: str = ""
    cores: int = 0


class DeviceView(Answer):
    """A device with the state of its lanes. ``host_name`` is told to administrators only."""

    device_id: str
    device_class_id: str
    device_class: DeviceClassView = DeviceClassView()
    kind: str
    host_name: str | None = None
    lanes: int = 0
    lane_states: dict[str, int] = Field(default_factory=dict)
    takes_work: bool = False
    room: int = 0
    in_flight: int = 0
    seen_at: str = ""


class WorkerView(Answer):
    """A lane of a worker. Names are told to administrators only."""

    worker_id: str
    device_id: str
    worker_name: str | None = None
    host_name: str | None = None
    device_class_id: str
    kind: str
    tvm_version: str = ""
    state: str
    reason: str = ""
    requested: str = "none"
    cores: int = 0
    room: int = 0
    in_flight: int = 0
    seen_at: str = ""


class TokenView(Answer):
    """A token without its secret."""

    token_id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None


class NewTokenView(Answer):
    """A token with its text, which is told once."""

    token: TokenView
    text: str | None


class UploadView(Answer):
    """Content on its way in."""

    upload_id: str
    size_bytes: int
    received_bytes: int


class RefusedLine(Answer):
    """A line that was not taken, and why."""

    file: str
    line: int
    reason: str


class ImportView(Answer):
    """What an import did."""

    record_ids: tuple[str, ...]
    already_there: int
    refusals: tuple[RefusedLine, ...]
    refused: int = 0


class LeftOutView(Answer):
    """How many records an export left out for one reason."""

    records: int
    reason: str


class ExportView(Answer):
    """The text of both files of a TVM database, how many records they hold, and those that were left out."""

    workloads: str = Field(repr=False)
    records: str = Field(repr=False)
    exported: int
    left_out: tuple[LeftOutView, ...] = ()
