"""The resources of a service as attributes of ``AsyncClient``; each method executes one call."""

from collections.abc import Mapping

from tunefarm.http.async_transport import AsyncTransport
from tunefarm.http.calls import (
    artifact_calls,
    device_calls,
    job_calls,
    record_calls,
    token_calls,
    upload_calls,
    workload_calls,
)
from tunefarm.http.method import awaited
from tunefarm.remote.remote_job import AsyncRemoteJob
from tunefarm_schemas.tuning.job import JobKind, JobState


class AsyncNoun:
    """A resource of a service."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport


class AsyncJobs(AsyncNoun):
    """Jobs of the service."""

    views = awaited(job_calls.job_views)
    pause = awaited(job_calls.job_pause)
    resume = awaited(job_calls.job_resumption)
    cancel = awaited(job_calls.job_cancellation)
    finish = awaited(job_calls.job_finish)
    delete = awaited(job_calls.job_deletion)

    async def get(self, job_id: str) -> AsyncRemoteJob:
        """Fetch a job."""
        return AsyncRemoteJob(self.transport, await self.transport.run(job_calls.job_view(job_id)))

    async def list(
        self,
        state: JobState | None = None,
        labels: Mapping[str, str] | None = None,
        kind: JobKind | None = None,
        limit: int | None = job_calls.LIMIT,
    ) -> "list[AsyncRemoteJob]":
        """Jobs that have all ``labels``, the newest first."""
        found = await self.transport.run(job_calls.job_views(state, labels, kind, limit))
        return [AsyncRemoteJob(self.transport, view) for view in found]


class AsyncRecords(AsyncNoun):
    """Tuning records: schedules with their latencies."""

    get = awaited(record_calls.record)
    list = awaited(record_calls.records)
    best = awaited(record_calls.best_records)
    publish = awaited(record_calls.publication)
    retract = awaited(record_calls.retraction)
    import_ = awaited(record_calls.database_import)
    export = awaited(record_calls.database_export)


class AsyncWorkloads(AsyncNoun):
    """Workloads: the functions that are tuned."""

    get = awaited(workload_calls.workload)
    view = awaited(workload_calls.workload_view)
    module = awaited(workload_calls.workload_module)
    list = awaited(workload_calls.workloads)
    like = awaited(workload_calls.workloads_like)
    add = awaited(workload_calls.new_workloads)


class AsyncTargets(AsyncNoun):
    """Targets of code generation."""

    get = awaited(workload_calls.target)
    list = awaited(workload_calls.targets)
    presets = awaited(workload_calls.target_presets)
    validate = awaited(workload_calls.target_validation)


class AsyncDevices(AsyncNoun):
    """Devices that measure."""

    get = awaited(device_calls.device)
    list = awaited(device_calls.devices)
    ask = awaited(device_calls.device_request)


class AsyncWorkers(AsyncNoun):
    """Lanes of workers."""

    get = awaited(device_calls.worker)
    list = awaited(device_calls.workers)
    ask = awaited(device_calls.worker_request)


class AsyncArtifacts(AsyncNoun):
    """Compiled libraries."""

    get = awaited(artifact_calls.artifact)
    of_record = awaited(artifact_calls.artifact_of_record)
    list = awaited(artifact_calls.artifacts)


class AsyncUploads(AsyncNoun):
    """Resumable uploads. Clients upload large modules automatically."""

    send = awaited(upload_calls.upload)
    resume = awaited(upload_calls.upload_rest)
    offset = awaited(upload_calls.upload_offset)
    delete = awaited(upload_calls.upload_deletion)


class AsyncTokens(AsyncNoun):
    """Tokens of the caller's tenant."""

    list = awaited(token_calls.tokens)
    create = awaited(token_calls.new_token)
    revoke = awaited(token_calls.token_revocation)
    rotate = awaited(token_calls.token_rotation)
