"""A lane without a device: each candidate takes a fixed time, and its latency depends on its trace only."""

import heapq
import os
import select
import threading
import time
from collections.abc import Callable, Collection
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.kernel_library import kernel_library
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.device import Device, DeviceClass, ReferenceKernelTimes
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
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.worker.settings import WorkerSettings

PRELOAD: Final = ()
"""The fork server needs no TVM: no schedule is compiled."""
CODE_GENERATOR: Final = "tvm-simulated+none"
SECONDS: Final = "TUNEFARM_SIMULATED_SECONDS"
ROOM: Final = "TUNEFARM_SIMULATED_ROOM"


def simulated_device(name: str = "simulated") -> Device:
    """A device of the class shared by all simulated lanes of that name."""
    return Device(
        fingerprint=digest(f"{name} {os.getpid()}"),
        host_name=name,
        device_class=DeviceClass(
            kind="cpu",
            vendor="simulated",
            family="0",
            model="0",
            stepping="0",
            name=name,
            isa_flags_digest=digest(""),
            caches_bytes=(),
            cores=1,
            compute_bucket=0,
            bandwidth_bucket=0,
            launch_bucket=0,
        ),
        reference=ReferenceKernelTimes(compute_s=1e-4, bandwidth_s=1e-4, launch_s=1e-6),
    )


class SimulatedFarm:
    """Measures one candidate at a time, in ``seconds_each``."""

    def __init__(self, device: Device, seconds_each: float, room: int) -> None:
        self.device = device
        self.code_generator = CODE_GENERATOR
        self.processor = Processor()
        self._seconds_each = seconds_each
        self._room = room
        self._free_s = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Dispatch]] = []
        self._lock = threading.Lock()
        self._changed = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def open_task(self, task: MeasureTask) -> None:
        """Nothing to prepare."""

    def close_task(self, exploration_id: str) -> None:
        """Nothing to release."""

    def submit(self, dispatch: Dispatch) -> None:
        """Queue a candidate."""
        with self._lock:
            self._free_s = max(self._free_s, time.monotonic()) + self.seconds_of(dispatch.candidate.number)
            heapq.heappush(self._due, (self._free_s, next(self._order), dispatch))
        os.eventfd_write(self._changed, 1)

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """No early stops."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Return finished measurements; wait for the first."""
        deadline_s = time.monotonic() + (3600.0 if timeout_s is None else timeout_s)
        waiting = select.poll()
        waiting.register(self._changed, select.POLLIN)
        while not (done := self._take_done()):
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return []
            with self._lock:
                next_s = min(self._due[0][0] if self._due else deadline_s, deadline_s)
            if waiting.poll(max(next_s - now_s, 0.0) * 1000):
                os.eventfd_read(self._changed)
        return done

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """Return these as canceled, immediately."""
        with self._lock:
            wanted = frozenset(dispatch_ids)
            self._due = [(0.0 if d.dispatch_id in wanted else due_s, n, d) for due_s, n, d in self._due]
            heapq.heapify(self._due)
        os.eventfd_write(self._changed, 1)

    def suspects(self) -> list[Measurement]:
        """None: the device is always in order."""
        return []

    def trouble(self) -> str:
        """None: the device is always in order."""
        return ""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """The latencies of the traces."""
        results: list[Result] = []
        for trace in order.traces:
            time.sleep(self._seconds_each)
            if on_wait():
                results.append(self.result_of(trace or Trace(text="[[],[]]")))
            else:
                results.append(Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="canceled")))
        return Comparison(results=tuple(results))

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Export a library that does nothing."""
        on_wait()
        result = self.result_of(order.trace or Trace(text="[[],[]]"))
        if isinstance(result, Failed):
            return result
        assert isinstance(result, Timing)
        return Exported(
            library=kernel_library(), entry="main", process_latencies_s=(result.latency_s,) * order.processes
        )

    def room(self) -> int:
        """The number of candidates held at the same time."""
        return self._room

    def close(self) -> None:
        """Nothing to stop."""

    def seconds_of(self, _number: int) -> float:
        """How long the candidate occupies the device."""
        return self._seconds_each

    def result_of(self, trace: Trace) -> Result:
        """A latency between one and two milliseconds that depends on the trace only."""
        latency_s = 1e-3 * (1.0 + int(digest(trace.text)[:8], 16) / 0xFFFFFFFF)
        return Timing(latency_s=latency_s, samples_s=(latency_s,) * 3)

    def _take_done(self) -> list[Measurement]:
        done = []
        with self._lock:
            while self._due and self._due[0][0] <= time.monotonic():
                due_s, _, dispatch = heapq.heappop(self._due)
                done.append((due_s == 0.0, dispatch))
        canceled = Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))
        return [
            self._measurement(dispatch, canceled if is_canceled else self.result_of(dispatch.candidate.trace))
            for is_canceled, dispatch in done
        ]

    def _measurement(self, dispatch: Dispatch, result: Result) -> Measurement:
        stages = Stages(run_s=self.seconds_of(dispatch.candidate.number))
        return Measurement.answering(dispatch, result, stages, device_fingerprint=self.device.fingerprint)


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> SimulatedFarm:
    """The farm of a worker process without a device."""
    del settings, fork_server, scratch, blobs
    return SimulatedFarm(simulated_device(), float(os.environ.get(SECONDS, "0")), int(os.environ.get(ROOM, "16")))
