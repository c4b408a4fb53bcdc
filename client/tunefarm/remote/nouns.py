"""The resources of a service as attributes of ``Client`` and ``AsyncClient``; each method executes one call."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

from tunefarm.http.calls import (
    artifact_calls,
    bundle_calls,
    device_calls,
    fleet_calls,
    job_calls,
    job_copy_calls,
    record_calls,
    token_calls,
    upload_calls,
    workload_calls,
)
from tunefarm.http.method import Carrier, Noun, call, executed
from tunefarm.http.request import Flow
from tunefarm_schemas.tuning.job import Job, JobKind, JobState

H = TypeVar("H")
Handles: TypeAlias = list[H]


class Jobs(Noun[Carrier], Generic[Carrier, H]):
    """Jobs of the service."""

    def __init__(self, transport: Carrier, handle: Callable[[Carrier, Job], H]) -> None:
        super().__init__(transport)
        self._handle = handle

    views = call(job_calls.job_views)
    field = call(job_calls.job_field)
    pause = call(job_calls.job_pause)
    resume = call(job_calls.job_resumption)
    cancel = call(job_calls.job_cancellation)
    finish = call(job_calls.job_finish)
    delete = call(job_calls.job_deletion)
    space = call(job_calls.job_space)
    clone = call(job_copy_calls.job_clone)
    extend = call(job_copy_calls.job_extension)
    compare = call(job_copy_calls.job_comparison)

    @executed
    def get(self, job_id: str) -> Flow[H]:
        """Fetch a job."""
        return self._handle(self.transport, (yield from job_calls.job_view(job_id)))

    @executed
    def list(
        self,
        state: JobState | None = None,
        labels: Mapping[str, str] | None = None,
        kind: JobKind | None = None,
        limit: int | None = job_calls.LIMIT,
    ) -> Flow[Handles[H]]:
        """Jobs that have all ``labels``, the newest first."""
        views = yield from job_calls.job_views(state, labels, kind, limit)
        return [self._handle(self.transport, view) for view in views]


class Records(Noun[Carrier]):
    """Tuning records: schedules with their latencies."""

    get = call(record_calls.record)
    list = call(record_calls.records)
    best = call(record_calls.best_records)
    publish = call(record_calls.publication)
    code = call(record_calls.record_code)
    trials = call(record_calls.record_trials)
    field = call(record_calls.record_in_field)
    retract = call(record_calls.retraction)
    import_ = call(record_calls.database_import)
    export = call(record_calls.database_export)


class Workloads(Noun[Carrier]):
    """Workloads: the functions that are tuned."""

    get = call(workload_calls.workload)
    view = call(workload_calls.workload_view)
    module = call(workload_calls.workload_module)
    list = call(workload_calls.workloads)
    like = call(workload_calls.workloads_like)
    add = call(workload_calls.new_workloads)


class Targets(Noun[Carrier]):
    """Targets of code generation."""

    get = call(workload_calls.target)
    list = call(workload_calls.targets)
    presets = call(workload_calls.target_presets)
    validate = call(workload_calls.target_validation)


class Devices(Noun[Carrier]):
    """Devices that measure."""

    get = call(device_calls.device)
    list = call(device_calls.devices)
    ask = call(device_calls.device_request)
    history = call(device_calls.device_history)


class Workers(Noun[Carrier]):
    """Lanes of workers."""

    get = call(device_calls.worker)
    list = call(device_calls.workers)
    ask = call(device_calls.worker_request)


class Artifacts(Noun[Carrier]):
    """Compiled libraries."""

    get = call(artifact_calls.artifact)
    of_record = call(artifact_calls.artifact_of_record)
    list = call(artifact_calls.artifacts)


class Bundles(Noun[Carrier]):
    """Bundles of functions for devices without TVM, which the service builds."""

    create = call(bundle_calls.new_bundle)
    of_sources = call(bundle_calls.bundle_of_sources)
    get = call(bundle_calls.bundle)
    content = call(bundle_calls.bundle_content)
    list = call(bundle_calls.bundles)
    delete = call(bundle_calls.bundle_deletion)


class Uploads(Noun[Carrier]):
    """Resumable uploads. Clients upload large modules automatically."""

    send = call(upload_calls.upload)
    resume = call(upload_calls.upload_rest)
    offset = call(upload_calls.upload_offset)
    delete = call(upload_calls.upload_deletion)


class Tokens(Noun[Carrier]):
    """Tokens of the caller's tenant."""

    list = call(token_calls.tokens)
    create = call(token_calls.new_token)
    revoke = call(token_calls.token_revocation)
    rotate = call(token_calls.token_rotation)


class Fleet(Noun[Carrier]):
    """Edge devices and the codes that enrol them."""

    codes = call(fleet_calls.enrolment_codes)
    create_code = call(fleet_calls.new_enrolment_code)
    delete_code = call(fleet_calls.enrolment_code_deletion)
    devices = call(fleet_calls.edge_devices)
    get = call(fleet_calls.edge_device)
    change = call(fleet_calls.edge_device_change)
    revoke = call(fleet_calls.edge_device_revocation)
    delete = call(fleet_calls.edge_device_deletion)
    summary = call(fleet_calls.fleet_summary)
    latency = call(fleet_calls.field_latency)
    changes = call(fleet_calls.fleet_changes)


class Channels(Noun[Carrier]):
    """Channels and the rollouts of their releases."""

    list = call(fleet_calls.channels)
    get = call(fleet_calls.channel)
    evidence = call(fleet_calls.channel_evidence)
    ask = call(fleet_calls.channel_request)
    policy = call(fleet_calls.retune_policy)
    set_policy = call(fleet_calls.retune_policy_change)
