"""The tuner's port to a farm."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tunefarm_schemas.tuning.device import Device
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Dispatch,
    ExportOrder,
    ExportResult,
    Measurement,
    MeasureTask,
)


class Farm(Protocol):
    """Measures candidates for one tuner. Its methods are called from one thread."""

    @property
    def device(self) -> Device:
        """A device of the class to which all measurements of this farm belong."""

    @property
    def code_generator(self) -> str:
        """Compiler and back end with their versions, as in a record's key."""

    def open_task(self, task: MeasureTask) -> None:
        """Open an exploration. Raises ``BadInput`` if its workload cannot be verified."""

    def close_task(self, exploration_id: str) -> None:
        """Close an exploration whose attempts have all ended. Does nothing if it is not open."""

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt. ``collect`` returns its measurement in every case."""

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Set the latency at which slower candidates are stopped early."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Available measurements. Waits up to ``timeout_s`` for the first; forever if None."""

    def acknowledge(self, measurements: Sequence[Measurement]) -> None:
        """Report these as committed, so that the farm drops its copies."""

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable while ``collect`` has something to return."""

    def cancel_all(self) -> None:
        """Cancel everything queued or running within two seconds. Each attempt returns as canceled."""

    def suspects(self) -> list[Measurement]:
        """Results delivered since the device's last good health check, while it fails them; otherwise empty."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """Time schedules side by side on a quiet device.

        ``on_wait`` is called on this thread a few times a second; when it returns False, all results are canceled.
        """

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Compile a schedule to a library and time it in fresh processes. ``on_wait`` as in ``compare``."""

    def room(self) -> int:
        """The number of attempts, queued or running, that keep the farm busy."""

    def has_lanes(self) -> bool:
        """Whether a lane can take attempts now; without one they wait."""

    def close(self) -> None:
        """Release all resources. Idempotent."""
