"""What the tuner needs from whoever measures."""

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
    """Measures candidates. One farm serves one tuner; its methods are called from one thread."""

    @property
    def device(self) -> Device:
        """The device whose class all measurements of this farm belong to."""

    @property
    def code_generator(self) -> str:
        """Compiler and back end with their versions, as they enter a record's key."""

    def open_task(self, task: MeasureTask) -> None:
        """Announce an exploration. Raises ``BadInput`` when its workload cannot be verified."""

    def close_task(self, exploration_id: str) -> None:
        """Let an exploration go whose attempts have all ended. Harmless when it is not open."""

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt; its measurement comes out of ``collect``, whatever happens to it."""

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Tell the latency against which losers are stopped early."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready; waits up to ``timeout_s`` for the first, for ever when None."""

    def acknowledge(self, measurements: Sequence[Measurement]) -> None:
        """Say that these are committed, so that whoever keeps copies of them may drop those."""

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable when ``collect`` would return something."""

    def cancel_all(self) -> None:
        """End all that is queued or running within two seconds; each attempt comes back as canceled."""

    def suspects(self) -> list[Measurement]:
        """Results delivered since the device was last seen in order, while it is not; empty while it is."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """Time schedules side by side on a quiet device.

        ``on_wait`` is called on this thread a few times a second; once it gives False, all comes back as canceled.
        """

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Compile a schedule to a library and time it in fresh processes. ``on_wait`` as in ``compare``."""

    def room(self) -> int:
        """How many attempts it wants queued or running at once, to be kept busy."""

    def close(self) -> None:
        """Let everything go; harmless when repeated."""
