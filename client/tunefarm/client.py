"""A client of a service, for Python programs."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from tunefarm.http.calls.usage_calls import usage_list
from tunefarm.http.retrying import RetryPolicy
from tunefarm.http.service_address import ClientSettings, service_address
from tunefarm.http.transport import Transport
from tunefarm.intake.untuned_functions import warn_of_untuned
from tunefarm.remote.conversion import Conversion, Converter
from tunefarm.remote.job_options import RemoteJobOptions
from tunefarm.remote.job_submission import measurement_submission, measurements, submission
from tunefarm.remote.measured_module import MeasuredModule
from tunefarm.remote.nouns import Artifacts, Devices, Jobs, Records, Targets, Tokens, Uploads, Workers, Workloads
from tunefarm.remote.remote_job import RemoteJob
from tunefarm.remote.tune_request import TuneArguments, TuneRequest, takes_tune_arguments
from tunefarm_schemas.usage import Usage

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer


class Client:
    """A client of a service. Use it in a ``with`` statement, or close it. Threads may share it.

    Requests are sent again, with the same idempotency key, while the service restarts or asks for patience.

    Attributes:
        jobs, records, workloads, targets, devices, workers, artifacts, uploads, tokens: what the service holds.
        converter: turns what users name into what is sent.

    Raises:
        BadInput: no service is known.
        ApiError: the service refuses; of every method.
        ServiceUnreachable: it does not answer; of every method.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        zygote: "ForkServer | None" = None,
    ) -> None:
        """Find the service.

        Args:
            url: of the service; from ``TUNEFARM_API_URL``, or the one that runs on this machine, when None.
            token: from ``TUNEFARM_API_TOKEN``, or what that service left for its user, when None.
            retry: how patient to be; ``TUNEFARM_API_PATIENCE_S`` when None.
            zygote: a process with TVM that was started earlier; it is ended with the client.
        """
        self.converter = Converter(zygote)
        settings = ClientSettings()
        address = service_address(url, token, settings)
        self.transport = Transport(address, retry or RetryPolicy(patience_s=settings.api_patience_s))
        self.jobs = Jobs(self.transport)
        self.records = Records(self.transport)
        self.workloads = Workloads(self.transport)
        self.targets = Targets(self.transport)
        self.devices = Devices(self.transport)
        self.workers = Workers(self.transport)
        self.artifacts = Artifacts(self.transport)
        self.uploads = Uploads(self.transport)
        self.tokens = Tokens(self.transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what the client has begun on this machine; jobs go on."""
        self.transport.close()
        self.converter.close()

    @takes_tune_arguments
    def tune(self, module: Any, **arguments: Unpack[TuneArguments]) -> RemoteJob:
        """Have a function, or several, tuned. A warning names what of the module is not TIR and is not tuned.

        Args:
            module: an IRModule, a PrimFunc, a list of te tensors, or text as the command line takes it: a file,
                ``FILE.py:FUNCTION``, ``te:NAME``, ``builtin:NAME``.
            arguments: see ``TuneArguments``.

        Raises:
            BadInput: any part of it cannot be tuned.
        """
        request = TuneRequest.of(module, **arguments)
        conversion = self.converter.convert(request.intake, request.given)
        job = self.submit(conversion, request.options)
        warn_of_untuned(conversion.untuned_functions or job.view.spec.untuned_functions)
        return job

    def submit(self, conversion: Conversion, options: RemoteJobOptions) -> RemoteJob:
        """Have what was converted tuned."""
        return RemoteJob(self.transport, self.transport.run(submission(conversion, options)))

    def measure(
        self,
        modules: Sequence[str],
        *,
        target: str,
        device_class_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[MeasuredModule]:
        """Have scheduled modules, as TVM JSON, measured as they are, and wait for it; one result for each.

        ``target`` is JSON of an object.
        """
        flow = measurement_submission(modules, target, device_class_id=device_class_id, labels=labels or {})
        job = RemoteJob(self.transport, self.transport.run(flow))
        job.wait(progress=False)
        return measurements(job.view, job.summary, modules)

    def usage(self, since: str | None = None) -> list[Usage]:
        """What was used of the farm, by day; from the day ``since`` on, such as ``2026-01-31``."""
        return self.transport.run(usage_list(since))
