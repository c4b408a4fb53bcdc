"""A MetaSchedule runner that measures on a farm."""

import threading
from collections.abc import Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult

from tunefarm.client import Client
from tunefarm.http.api_error import ApiError, ServiceUnreachable
from tunefarm.remote.measured_module import MeasuredModule
from tunefarm.remote.tickets import TICKETS, ScheduledModule
from tunefarm_schemas.bad_input import BadInput

NOT_OURS = "tunefarm: this runner measures only modules from tunefarm.FarmBuilder, each of them once."


@derived_object
class FarmRunner(PyRunner):  # type: ignore[misc]
    """A runner for TVM's own tuning, used with ``FarmBuilder``. Each batch becomes one job of the service.

    Args:
        url: of the service. Default: the environment, else the service on this machine.
        token: default: like ``url``.
        device_class_id: the device class to measure on. Default: the service's choice.
        labels: of the jobs.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        device_class_id: str | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        self._client = Client(url, token)
        self._device_class_id = device_class_id
        self._labels = {"source": "FarmRunner", **(labels or {})}

    def run(self, runner_inputs: Any) -> list[Any]:
        """Submit the batch and return futures of its results, in the order of the batch."""
        modules = [TICKETS.redeem(str(each.artifact_path)) for each in runner_inputs]
        results = [_Result() for _ in modules]
        for target in sorted({module.target for module in modules if module is not None}):
            chosen = [(m, r) for m, r in zip(modules, results, strict=True) if m is not None and m.target == target]
            arguments = ([module for module, _ in chosen], [result for _, result in chosen], target)
            threading.Thread(target=self._measure, args=arguments, name="tunefarm-batch", daemon=True).start()
        for module, result in zip(modules, results, strict=True):
            if module is None:
                result.set(RunnerResult(None, NOT_OURS))
        return [_FarmFuture(result) for result in results]

    def _measure(self, modules: Sequence[ScheduledModule], results: "Sequence[_Result]", target: str) -> None:
        try:
            measured = self._client.measure(
                [module.module_json for module in modules],
                target=target,
                device_class_id=self._device_class_id,
                labels=self._labels,
            )
        except (ApiError, ServiceUnreachable, BadInput) as problem:
            measured = [MeasuredModule(failure=f"tunefarm: {problem}")] * len(modules)
        except BaseException as error:
            for result in results:
                result.set(RunnerResult(None, f"tunefarm: {type(error).__name__}: {error}"))
            raise
        for result, each in zip(results, measured, strict=True):
            result.set(RunnerResult(list(each.samples_s) or None, each.failure or None))


class _Result:
    """A result that a thread sets."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._value: RunnerResult | None = None

    def set(self, value: RunnerResult) -> None:
        """Set the result."""
        self._value = value
        self._arrived.set()

    @property
    def is_set(self) -> bool:
        """Whether the result is available."""
        return self._arrived.is_set()

    def wait(self) -> RunnerResult:
        """Wait for the result."""
        self._arrived.wait()
        assert self._value is not None
        return self._value


@derived_object
class _FarmFuture(PyRunnerFuture):  # type: ignore[misc]
    """TVM's handle of a result."""

    def __init__(self, result: _Result) -> None:
        self._awaited = result

    def done(self) -> bool:
        """Whether the result is available."""
        return self._awaited.is_set

    def result(self) -> RunnerResult:
        """Wait for the result."""
        return self._awaited.wait()
