"""What a service holds, as attributes of a client that blocks: each method carries one described call out."""

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
from tunefarm.remote.method import Blocking
from tunefarm.remote.remote_job import RemoteJob
from tunefarm.remote.transport import Transport
from tunefarm_schemas.job import JobKind, JobState


class Noun:
    """One kind of thing that a service holds."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport


class Jobs(Noun):
    """What the service was asked to do."""

    views = Blocking(job_calls.job_views)
    pause = Blocking(job_calls.job_pause)
    resume = Blocking(job_calls.job_resumption)
    cancel = Blocking(job_calls.job_cancellation)
    delete = Blocking(job_calls.job_deletion)

    def get(self, job_id: str) -> RemoteJob:
        """One job."""
        return RemoteJob(self.transport, self.transport.run(job_calls.job_view(job_id)))

    def list(
        self,
        state: JobState | None = None,
        labels: Mapping[str, str] | None = None,
        kind: JobKind | None = None,
        limit: int | None = job_calls.LIMIT,
    ) -> "list[RemoteJob]":
        """Jobs, the newest first, that carry all ``labels``."""
        found = self.transport.run(job_calls.job_views(state, labels, kind, limit))
        return [RemoteJob(self.transport, view) for view in found]


class Records(Noun):
    """Schedules with their times."""

    get = Blocking(record_calls.record)
    list = Blocking(record_calls.records)
    best = Blocking(record_calls.best_records)
    publish = Blocking(record_calls.publication)
    retract = Blocking(record_calls.retraction)
    import_ = Blocking(record_calls.database_import)
    export = Blocking(record_calls.database_export)


class Workloads(Noun):
    """What is tuned."""

    get = Blocking(workload_calls.workload)
    view = Blocking(workload_calls.workload_view)
    module = Blocking(workload_calls.workload_module)
    list = Blocking(workload_calls.workloads)
    like = Blocking(workload_calls.workloads_like)
    add = Blocking(workload_calls.new_workloads)


class Targets(Noun):
    """What code is generated for."""

    get = Blocking(workload_calls.target)
    list = Blocking(workload_calls.targets)
    presets = Blocking(workload_calls.target_presets)
    validate = Blocking(workload_calls.target_validation)


class Devices(Noun):
    """What is measured on."""

    get = Blocking(device_calls.device)
    list = Blocking(device_calls.devices)
    ask = Blocking(device_calls.device_request)


class Workers(Noun):
    """The lanes of workers that serve devices."""

    get = Blocking(device_calls.worker)
    list = Blocking(device_calls.workers)
    ask = Blocking(device_calls.worker_request)


class Artifacts(Noun):
    """Compiled libraries."""

    get = Blocking(artifact_calls.artifact)
    of_record = Blocking(artifact_calls.artifact_of_record)
    list = Blocking(artifact_calls.artifacts)


class Uploads(Noun):
    """Content on its way in, piece by piece. Large modules are uploaded without being asked."""

    send = Blocking(upload_calls.upload)
    resume = Blocking(upload_calls.upload_rest)
    offset = Blocking(upload_calls.upload_offset)
    delete = Blocking(upload_calls.upload_deletion)


class Tokens(Noun):
    """Who may do what in the caller's tenant."""

    list = Blocking(token_calls.tokens)
    create = Blocking(token_calls.new_token)
    revoke = Blocking(token_calls.token_revocation)
    rotate = Blocking(token_calls.token_rotation)
