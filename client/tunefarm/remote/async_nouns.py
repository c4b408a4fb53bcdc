"""What a service holds, as attributes of a client that is awaited: each method carries one described call out."""

from collections.abc import Mapping

from tunefarm.remote import (
    artifact_calls,
    device_calls,
    job_calls,
    record_calls,
    token_calls,
    upload_calls,
    workload_calls,
)
from tunefarm.remote.async_transport import AsyncTransport
from tunefarm.remote.method import Awaited
from tunefarm.remote.remote_job import AsyncRemoteJob
from tunefarm_schemas.job import JobKind, JobState


class Noun:
    """One kind of thing that a service holds."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport


class AsyncJobs(Noun):
    """What the service was asked to do."""

    views = Awaited(job_calls.job_views)
    pause = Awaited(job_calls.job_pause)
    resume = Awaited(job_calls.job_resumption)
    cancel = Awaited(job_calls.job_cancellation)
    delete = Awaited(job_calls.job_deletion)

    async def get(self, job_id: str) -> AsyncRemoteJob:
        """One job."""
        return AsyncRemoteJob(self.transport, await self.transport.run(job_calls.job_view(job_id)))

    async def list(
        self,
        state: JobState | None = None,
        labels: Mapping[str, str] | None = None,
        kind: JobKind | None = None,
        limit: int | None = job_calls.LIMIT,
    ) -> "list[AsyncRemoteJob]":
        """Jobs, the newest first, that carry all ``labels``."""
        found = await self.transport.run(job_calls.job_views(state, labels, kind, limit))
        return [AsyncRemoteJob(self.transport, view) for view in found]


class AsyncRecords(Noun):
    """Schedules with their times."""

    get = Awaited(record_calls.record)
    list = Awaited(record_calls.records)
    best = Awaited(record_calls.best_records)
    publish = Awaited(record_calls.publication)
    retract = Awaited(record_calls.retraction)
    import_ = Awaited(record_calls.database_import)
    export = Awaited(record_calls.database_export)


class AsyncWorkloads(Noun):
    """What is tuned."""

    get = Awaited(workload_calls.workload)
    view = Awaited(workload_calls.workload_view)
    module = Awaited(workload_calls.workload_module)
    list = Awaited(workload_calls.workloads)
    like = Awaited(workload_calls.workloads_like)
    add = Awaited(workload_calls.new_workloads)


class AsyncTargets(Noun):
    """What code is generated for."""

    get = Awaited(workload_calls.target)
    list = Awaited(workload_calls.targets)
    presets = Awaited(workload_calls.target_presets)
    validate = Awaited(workload_calls.target_validation)


class AsyncDevices(Noun):
    """What is measured on."""

    get = Awaited(device_calls.device)
    list = Awaited(device_calls.devices)
    ask = Awaited(device_calls.device_request)


class AsyncWorkers(Noun):
    """The lanes of workers that serve devices."""

    get = Awaited(device_calls.worker)
    list = Awaited(device_calls.workers)
    ask = Awaited(device_calls.worker_request)


class AsyncArtifacts(Noun):
    """Compiled libraries."""

    get = Awaited(artifact_calls.artifact)
    of_record = Awaited(artifact_calls.artifact_of_record)
    list = Awaited(artifact_calls.artifacts)


class AsyncUploads(Noun):
    """Content on its way in, piece by piece. Large modules are uploaded without being asked."""

    send = Awaited(upload_calls.upload)
    resume = Awaited(upload_calls.upload_rest)
    offset = Awaited(upload_calls.upload_offset)
    delete = Awaited(upload_calls.upload_deletion)


class AsyncTokens(Noun):
    """Who may do what in the caller's tenant."""

    list = Awaited(token_calls.tokens)
    create = Awaited(token_calls.new_token)
    revoke = Awaited(token_calls.token_revocation)
    rotate = Awaited(token_calls.token_rotation)
