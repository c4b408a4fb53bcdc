"""The resources of a service as attributes of ``Client``; each method executes one call."""

from collections.abc import Mapping

from tunefarm.http.calls import (
    artifact_calls,
    device_calls,
    job_calls,
    record_calls,
    token_calls,
    upload_calls,
    workload_calls,
)
from tunefarm.http.method import blocking
from tunefarm.http.transport import Transport
from tunefarm.remote.remote_job import RemoteJob
from tunefarm_schemas.tuning.job import JobKind, JobState


class Noun:
    """A resource of a service."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport


class Jobs(Noun):
    """Jobs of the service."""

    views = blocking(job_calls.job_views)
    pause = blocking(job_calls.job_pause)
    resume = blocking(job_calls.job_resumption)
    cancel = blocking(job_calls.job_cancellation)
    finish = blocking(job_calls.job_finish)
    delete = blocking(job_calls.job_deletion)

    def get(self, job_id: str) -> RemoteJob:
        """Fetch a job."""
        return RemoteJob(self.transport, self.transport.run(job_calls.job_view(job_id)))

    def list(
        self,
        state: JobState | None = None,
        labels: Mapping[str, str] | None = None,
        kind: JobKind | None = None,
        limit: int | None = job_calls.LIMIT,
    ) -> "list[RemoteJob]":
        """Jobs that have all ``labels``, the newest first."""
        found = self.transport.run(job_calls.job_views(state, labels, kind, limit))
        return [RemoteJob(self.transport, view) for view in found]


class Records(Noun):
    """Tuning records: schedules with their latencies."""

    get = blocking(record_calls.record)
    list = blocking(record_calls.records)
    best = blocking(record_calls.best_records)
    publish = blocking(record_calls.publication)
    retract = blocking(record_calls.retraction)
    import_ = blocking(record_calls.database_import)
    export = blocking(record_calls.database_export)


class Workloads(Noun):
    """Workloads: the functions that are tuned."""

    get = blocking(workload_calls.workload)
    view = blocking(workload_calls.workload_view)
    module = blocking(workload_calls.workload_module)
    list = blocking(workload_calls.workloads)
    like = blocking(workload_calls.workloads_like)
    add = blocking(workload_calls.new_workloads)


class Targets(Noun):
    """Targets of code generation."""

    get = blocking(workload_calls.target)
    list = blocking(workload_calls.targets)
    presets = blocking(workload_calls.target_presets)
    validate = blocking(workload_calls.target_validation)


class Devices(Noun):
    """Devices that measure."""

    get = blocking(device_calls.device)
    list = blocking(device_calls.devices)
    ask = blocking(device_calls.device_request)


class Workers(Noun):
    """Lanes of workers."""

    get = blocking(device_calls.worker)
    list = blocking(device_calls.workers)
    ask = blocking(device_calls.worker_request)


class Artifacts(Noun):
    """Compiled libraries."""

    get = blocking(artifact_calls.artifact)
    of_record = blocking(artifact_calls.artifact_of_record)
    list = blocking(artifact_calls.artifacts)


class Uploads(Noun):
    """Resumable uploads. Clients upload large modules automatically."""

    send = blocking(upload_calls.upload)
    resume = blocking(upload_calls.upload_rest)
    offset = blocking(upload_calls.upload_offset)
    delete = blocking(upload_calls.upload_deletion)


class Tokens(Noun):
    """Tokens of the caller's tenant."""

    list = blocking(token_calls.tokens)
    create = blocking(token_calls.new_token)
    revoke = blocking(token_calls.token_revocation)
    rotate = blocking(token_calls.token_rotation)
