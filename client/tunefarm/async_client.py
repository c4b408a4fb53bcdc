"""An async client of a service, for Python programs with an event loop."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from tunefarm.http.async_transport import AsyncTransport
from tunefarm.http.calls.usage_calls import usage_list
from tunefarm.http.retrying import RetryPolicy
from tunefarm.http.service_address import ClientSettings, service_address
from tunefarm.intake.untuned_functions import warn_of_untuned
from tunefarm.remote.async_nouns import (
    AsyncArtifacts,
    AsyncDevices,
    AsyncJobs,
    AsyncRecords,
    AsyncTargets,
    AsyncTokens,
    AsyncUploads,
    AsyncWorkers,
    AsyncWorkloads,
)
from tunefarm.remote.conversion import Conversion, Converter
from tunefarm.remote.job_options import RemoteJobOptions
from tunefarm.remote.job_submission import measurement_submission, measurements, submission
from tunefarm.remote.measured_module import MeasuredModule
from tunefarm.remote.remote_job import AsyncRemoteJob
from tunefarm.remote.tune_request import TuneArguments, TuneRequest, takes_tune_arguments
from tunefarm_schemas.usage import Usage

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer


class AsyncClient:
    """A client of a service. Use it in an ``async with`` statement, or close it. It belongs to one event loop.

    Retries requests, with the same idempotency key, while the service restarts or answers with ``Retry-After``.

    Attributes:
        jobs, records, workloads, targets, devices, workers, artifacts, uploads, tokens: the service's resources.
        converter: converts modules, files and names into request bodies.

    Raises:
        BadInput: no service is configured.
        ApiError: the service rejects a request; raised by every method.
        ServiceUnreachable: the service does not answer; raised by every method.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        zygote: "ForkServer | None" = None,
    ) -> None:
        """Resolve the service's address; sends no request.

        Args:
            url: of the service. Default: ``TUNEFARM_API_URL``, else the service on this machine.
            token: default: ``TUNEFARM_API_TOKEN``, else the token file of the service on this machine.
            retry: default: waits ``TUNEFARM_API_PATIENCE_S`` in total.
            zygote: a fork server that is already running; closed with the client.
        """
        self.converter = Converter(zygote)
        settings = ClientSettings()
        address = service_address(url, token, settings)
        self.transport = AsyncTransport(address, retry or RetryPolicy(patience_s=settings.api_patience_s))
        self.jobs = AsyncJobs(self.transport)
        self.records = AsyncRecords(self.transport)
        self.workloads = AsyncWorkloads(self.transport)
        self.targets = AsyncTargets(self.transport)
        self.devices = AsyncDevices(self.transport)
        self.workers = AsyncWorkers(self.transport)
        self.artifacts = AsyncArtifacts(self.transport)
        self.uploads = AsyncUploads(self.transport)
        self.tokens = AsyncTokens(self.transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and local processes; jobs continue on the service."""
        await self.transport.close()
        await asyncio.to_thread(self.converter.close)

    @takes_tune_arguments
    async def tune(self, module: Any, **arguments: Unpack[TuneArguments]) -> AsyncRemoteJob:
        """Submit a job that tunes one or several functions. Warns about functions that are not TIR and stay untuned.

        Args:
            module: an IRModule, a PrimFunc, a list of te tensors, or text as the command line takes it: a file,
                ``FILE.py:FUNCTION``, ``te:NAME``, ``builtin:NAME``.
            arguments: see ``TuneArguments``.

        Raises:
            BadInput: any part of the module cannot be tuned.
        """
        request = TuneRequest.of(module, **arguments)
        # The conversion blocks on a child process, so it runs in a thread.
        conversion = await asyncio.to_thread(self.converter.convert, request.intake, request.given)
        job = await self.submit(conversion, request.options)
        warn_of_untuned(conversion.untuned_functions or job.view.spec.untuned_functions)
        return job

    async def submit(self, conversion: Conversion, options: RemoteJobOptions) -> AsyncRemoteJob:
        """Submit a job for a converted module."""
        return AsyncRemoteJob(self.transport, await self.transport.run(submission(conversion, options)))

    async def measure(
        self,
        modules: Sequence[str],
        *,
        target: str,
        device_class_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[MeasuredModule]:
        """Measure scheduled modules, given as TVM JSON, unchanged; wait for the results, one per module.

        ``target`` is a JSON object.
        """
        flow = measurement_submission(modules, target, device_class_id=device_class_id, labels=labels or {})
        job = AsyncRemoteJob(self.transport, await self.transport.run(flow))
        await job.wait(progress=False)
        return measurements(job.view, job.summary, modules)

    async def usage(self, since: str | None = None) -> list[Usage]:
        """Use of the farm per day, starting with the day ``since``, such as ``2026-01-31``."""
        return await self.transport.run(usage_list(since))
