"""Clients of a service for Python programs: blocking, and for programs with an event loop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from tunefarm.http.async_transport import AsyncTransport
from tunefarm.http.calls.usage_calls import farm_overview, usage_list
from tunefarm.http.method import Carrier, Noun, call, executed
from tunefarm.http.request import Flow
from tunefarm.http.retrying import RetryPolicy
from tunefarm.http.service_address import ClientSettings, ServiceAddress, service_address
from tunefarm.http.transport import Transport
from tunefarm.intake.untuned_functions import warn_of_untuned
from tunefarm.remote.conversion import Conversion, Converter
from tunefarm.remote.job_options import RemoteJobOptions
from tunefarm.remote.job_submission import measurement_submission, measurements, submission
from tunefarm.remote.measured_module import MeasuredModule
from tunefarm.remote.model_conversion import convert_with_model
from tunefarm.remote.nouns import (
    Artifacts,
    Bundles,
    Channels,
    Devices,
    Fleet,
    Jobs,
    Records,
    Targets,
    Tokens,
    Uploads,
    Workers,
    Workloads,
)
from tunefarm.remote.remote_job import AsyncRemoteJob, RemoteJob
from tunefarm.remote.tune_request import TuneArguments, TuneRequest, takes_tune_arguments
from tunefarm_schemas.tuning.job import Job

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer

H = TypeVar("H")


class ServiceClient(Noun[Carrier], Generic[Carrier, H]):
    """What ``Client`` and ``AsyncClient`` share.

    Retries requests, with the same idempotency key, while the service restarts or answers with ``Retry-After``.

    Attributes:
        jobs, records, workloads, targets, devices, workers, artifacts, bundles, uploads, tokens, fleet, channels: the
            service's resources.
        converter: converts modules, files and names into request bodies.

    Raises:
        BadInput: no service is configured.
        ApiError: the service rejects a request; raised by every method.
        ServiceUnreachable: the service does not answer; raised by every method.
    """

    _connect: Callable[[ServiceAddress, RetryPolicy], Carrier]
    _handle: Callable[[Carrier, Job], H]

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        fork_server: "ForkServer | None" = None,
    ) -> None:
        """Resolve the service's address; sends no request.

        Args:
            url: of the service. Default: ``TUNEFARM_API_URL``, else the service on this machine.
            token: default: ``TUNEFARM_API_TOKEN``, else the token file of the service on this machine.
            retry: default: waits ``TUNEFARM_API_PATIENCE_S`` in total.
            fork_server: a fork server that is already running; closed with the client.
        """
        self.converter = Converter(fork_server)
        settings = ClientSettings()
        address = service_address(url, token, settings)
        super().__init__(self._connect(address, retry or RetryPolicy(patience_s=settings.api_patience_s)))
        self.jobs = Jobs(self.transport, self._handle)
        self.records = Records(self.transport)
        self.workloads = Workloads(self.transport)
        self.targets = Targets(self.transport)
        self.devices = Devices(self.transport)
        self.workers = Workers(self.transport)
        self.artifacts = Artifacts(self.transport)
        self.bundles = Bundles(self.transport)
        self.uploads = Uploads(self.transport)
        self.tokens = Tokens(self.transport)
        self.fleet = Fleet(self.transport)
        self.channels = Channels(self.transport)

    usage = call(usage_list)
    overview = call(farm_overview)

    @executed
    def submit(self, conversion: Conversion, options: RemoteJobOptions, model: bytes | None = None) -> Flow[H]:
        """Submit a job for a converted module, which keeps ``model`` for bundles: TVM's JSON with its weights."""
        return self._handle(self.transport, (yield from submission(conversion, options, model)))

    def _converted(self, request: TuneRequest) -> tuple[Conversion, bytes | None]:
        """The converted module, and the model that the job keeps beside it."""
        return convert_with_model(
            self.converter,
            request.intake,
            request.file,
            request.of_model,
            request.given,
            keeps_model=request.keeps_model,
        )

    @executed
    def _submit_measurement(
        self, modules: Sequence[str], target: str, device_class_id: str | None, labels: Mapping[str, str] | None
    ) -> Flow[H]:
        flow = measurement_submission(modules, target, device_class_id=device_class_id, labels=labels or {})
        return self._handle(self.transport, (yield from flow))


class Client(ServiceClient[Transport, RemoteJob]):
    """A client of a service. Use it in a ``with`` statement, or close it. It is thread-safe."""

    _connect = Transport
    _handle = RemoteJob

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and local processes; jobs continue on the service."""
        self.transport.close()
        self.converter.close()

    @takes_tune_arguments
    def tune(self, module: Any, **arguments: Unpack[TuneArguments]) -> RemoteJob:
        """Submit a job that tunes functions or a model. Warns about functions that are not TIR and stay untuned.

        Args:
            module: an IRModule, a PrimFunc, a list of te tensors, or text as the command line takes it: a file,
                ``FILE.py:FUNCTION``, ``te:NAME``, ``builtin:NAME``, or the file of a model, such as ``net.onnx``, whose
                weights stay on this machine.
            arguments: see ``TuneArguments``.

        Raises:
            BadInput: any part of the module cannot be tuned.
        """
        request = TuneRequest.of(module, **arguments)
        conversion, model = self._converted(request)
        job = self.submit(conversion, request.options, model)
        warn_of_untuned(conversion.untuned_functions or job.view.spec.untuned_functions)
        return job

    def measure(
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
        job = self._submit_measurement(modules, target, device_class_id, labels)
        job.wait(progress=False)
        return measurements(job.view, job.summary, modules)


class AsyncClient(ServiceClient[AsyncTransport, AsyncRemoteJob]):
    """A client whose methods are coroutines. Use it in ``async with``, or close it. It belongs to one event loop."""

    _connect = AsyncTransport
    _handle = AsyncRemoteJob

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and local processes; jobs continue on the service."""
        await self.transport.close()
        await asyncio.to_thread(self.converter.close)

    @takes_tune_arguments
    async def tune(self, module: Any, **arguments: Unpack[TuneArguments]) -> AsyncRemoteJob:
        """Submit a job that tunes one or several functions, as ``Client.tune`` does."""
        request = TuneRequest.of(module, **arguments)
        # The conversion blocks on child processes, so it runs in a thread.
        conversion, model = await asyncio.to_thread(self._converted, request)
        job = await self.submit(conversion, request.options, model)
        warn_of_untuned(conversion.untuned_functions or job.view.spec.untuned_functions)
        return job

    async def measure(
        self,
        modules: Sequence[str],
        *,
        target: str,
        device_class_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[MeasuredModule]:
        """Measure scheduled modules, as ``Client.measure`` does."""
        job = await self._submit_measurement(modules, target, device_class_id, labels)
        await job.wait(progress=False)
        return measurements(job.view, job.summary, modules)
