"""The port of farms that a worker process serves, and their factories."""

from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.lane import ReferenceCheck
from tunefarm_schemas.farm.processor import Processor
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
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.worker.preloads import PROCESSOR
from tunefarm_workers.worker.settings import WorkerSettings


@runtime_checkable
class CheckedFarm(Protocol):
    """A farm that times reference kernels on its device now and then."""

    @property
    def last_check(self) -> ReferenceCheck | None:
        """The latest check; None before the first. Called on any thread."""


class DeviceFarm(Protocol):
    """A farm of one device.

    Methods are called from several threads, but ``collect`` from one only, and ``compare`` and ``export`` from another
    one. All except these three return quickly.
    """

    @property
    def device(self) -> Device:
        """The device."""

    @property
    def code_generator(self) -> str:
        """The compiler and back end with their versions."""

    @property
    def processor(self) -> Processor:
        """The processor that runs the code, as far as it is known."""

    def open_task(self, task: MeasureTask) -> None:
        """Open an exploration, unless it is open. Raises ``BadInput``."""

    def close_task(self, exploration_id: str) -> None:
        """Close an exploration whose attempts have all ended."""

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt at an exploration that is open."""

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Set the latency against which slower candidates are stopped early."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready. Raises ``BadInput``; ``UnverifiableFunction`` names the exploration."""

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End these attempts; ``collect`` returns each as canceled."""

    def suspects(self) -> list[Measurement]:
        """While the device is quarantined: the measurements since its last good check."""

    def trouble(self) -> str:
        """Why the device cannot be used now, as text to show; empty if it can."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """Time schedules side by side."""

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Compile a schedule to a library and time it."""

    def room(self) -> int:
        """How many attempts to keep queued or running."""

    def close(self) -> None:
        """End everything."""


class FarmMaker(Protocol):
    """Creates a lane's farm. ``scratch`` is a folder for this process alone; ``blobs`` is shared by all hosts."""

    def __call__(self, settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> DeviceFarm:
        """Raises BadInput, ForkFailed."""


MAKERS: Final = {
    "cpu": "tunefarm_workers.worker.local_lane:build",
    "cuda": "tunefarm_workers.cuda.gpu_lane:build",
    "rpc": "tunefarm_workers.gateway.board_lane:build",
}


def maker_of(settings: WorkerSettings) -> tuple[FarmMaker, tuple[str, ...]]:
    """The factory of the farm in ``settings``, and what its fork server loads: its module's PRELOAD, if there is one.

    Raises BadInput.
    """
    entry = settings.worker_farm or MAKERS[settings.worker_kind]
    name, _, function = entry.partition(":")
    try:
        module = import_module(name)
        maker: FarmMaker = getattr(module, function)
    except (ImportError, AttributeError) as error:
        field = "TUNEFARM_WORKER_FARM" if settings.worker_farm else "--kind"
        raise BadInput(field, f"{entry} cannot be loaded: {error}.", "Install the packages it needs.") from error
    return maker, tuple(getattr(module, "PRELOAD", PROCESSOR))
