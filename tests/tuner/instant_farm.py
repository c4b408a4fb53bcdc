"""A simulated device that measures instantly, with latencies derived from the traces."""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from benchmarks.kernel_library import kernel_library
from tests.store.sample import DEVICE
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Dispatch,
    Exported,
    ExportOrder,
    ExportResult,
    Failed,
    Measurement,
    MeasureTask,
    Result,
    Stages,
    Timing,
)


def latency_of(text: str) -> float:
    """The untuned function is the slowest."""
    if text in {"", "[[],[]]"}:
        return 3e-5
    return 1e-5 * (1 + int(digest(text)[:6], 16) / 0xFFFFFF)


class InstantFarm:
    """Implements the farm port. Holds results back until ``held`` is set."""

    device = DEVICE
    code_generator = "tvm+llvm"

    def __init__(self, width: int = 4, held: threading.Event | None = None) -> None:
        self._width = width
        self._held = held
        self._queue: deque[Dispatch] = deque()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.opened: list[MeasureTask] = []
        self.submitted: list[Dispatch] = []
        self.acknowledged: list[Measurement] = []
        self.closed = False
        self.lanes_left = True
        self._canceled: list[Measurement] = []

    def open_task(self, task: MeasureTask) -> None:
        self.opened.append(task)

    def close_task(self, exploration_id: str) -> None:
        pass

    def submit(self, dispatch: Dispatch) -> None:
        self.submitted.append(dispatch)
        self._queue.append(dispatch)
        os.eventfd_write(self._ready, 1)

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        pass

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        canceled, self._canceled = self._canceled, []
        if canceled or (self._held is not None and not self._held.wait(0.05)):
            return canceled
        return self._answer(lambda dispatch: _timing(dispatch.candidate.trace.text))

    def wakeup_fileno(self) -> int:
        return self._ready

    def cancel_all(self) -> None:
        canceled = Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))
        self._canceled = self._answer(lambda _: canceled)
        os.eventfd_write(self._ready, 1)

    def acknowledge(self, measurements: list[Measurement]) -> None:
        self.acknowledged += measurements

    def suspects(self) -> list[Measurement]:
        return []

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        on_wait()
        return Comparison(results=tuple(_timing("" if trace is None else trace.text) for trace in order.traces))

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        on_wait()
        latency_s = latency_of("" if order.trace is None else order.trace.text)
        return Exported(library=kernel_library(), entry="main", process_latencies_s=(latency_s,) * order.processes)

    def has_lanes(self) -> bool:
        return self.lanes_left

    def room(self) -> int:
        return self._width

    def close(self) -> None:
        if not self.closed:
            os.close(self._ready)
        self.closed = True

    def _answer(self, result_of: Callable[[Dispatch], Result]) -> list[Measurement]:
        answered = []
        while self._queue:
            dispatch = self._queue.popleft()
            stages = Stages(build_s=0.1, run_s=0.15)
            answered.append(Measurement.answering(dispatch, result_of(dispatch), stages))
        with suppress(BlockingIOError):
            os.eventfd_read(self._ready)
        return answered


def _timing(text: str) -> Timing:
    latency_s = latency_of(text)
    return Timing(latency_s=latency_s, samples_s=(latency_s, latency_s))
