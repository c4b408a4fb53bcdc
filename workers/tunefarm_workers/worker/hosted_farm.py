"""What a worker process needs of the object that measures, and where it comes from."""

from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
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
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.worker.settings import WorkerSettings


class HostedFarm(Protocol):
    """A farm for one device. Its methods are called from several threads; each is short but ``compare`` and ``export``.

    ``collect`` is called from one thread only, and so are ``compare`` and ``export``, from another.
    """

    @property
    def device(self) -> Device:
        """The device."""

    @property
    def code_generator(self) -> str:
        """Compiler and back end with their versions."""

    @property
    def processor(self) -> Processor:
        """What runs the code, as far as is known."""

    def open_task(self, task: MeasureTask) -> None:
        """Announce an exploration; opening it again changes nothing. Raises ``BadInput``."""

    def close_task(self, exploration_id: str) -> None:
        """Let an exploration go whose attempts have all ended."""

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt at an exploration that is open."""

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Tell the latency against which losers are stopped early."""

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready. Raises ``BadInput``, of the class Unverifiable where one task is meant."""

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End those attempts; each comes back as canceled."""

    def suspects(self) -> list[Measurement]:
        """Results delivered since the device was last seen in order, while it is not."""

    def trouble(self) -> str:
        """Why the device cannot be trusted now, for people; empty when it can."""

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """Time schedules side by side."""

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Compile a schedule to a library and time it."""

    def room(self) -> int:
        """How many attempts it wants queued or running at once."""

    def close(self) -> None:
        """End everything."""


class FarmMaker(Protocol):
    """Makes a lane's farm. ``scratch`` is a folder for this process alone; ``blobs`` are those that all hosts share."""

    def __call__(self, settings: WorkerSettings, zygote: ForkServer, scratch: Path, blobs: Blobs) -> HostedFarm:
        """Raises BadInput, ForkFailed."""


MAKERS: Final = {
    "cpu": "tunefarm_workers.worker.local_lane:build",
    "cuda": "tunefarm_workers.cuda.lane:build",
    "rpc": "tunefarm_workers.gateway.lane:build",
}
PRELOAD: Final = (LOAD_TVM, "tunefarm_workers.child.preload:preload")
"""What the fork server loads, unless the maker's module has a PRELOAD of its own."""


def maker_of(settings: WorkerSettings) -> tuple[FarmMaker, tuple[str, ...]]:
    """The function that makes the farm that ``settings`` ask for, and what its fork server loads. Raises BadInput."""
    entry = settings.worker_farm or MAKERS[settings.worker_kind]
    name, _, function = entry.partition(":")
    try:
        module = import_module(name)
        maker: FarmMaker = getattr(module, function)
    except (ImportError, AttributeError) as error:
        field = "TUNEFARM_WORKER_FARM" if settings.worker_farm else "--kind"
        raise BadInput(field, f"{entry} cannot be loaded: {error}.", "Install what that kind of lane needs.") from error
    return maker, tuple(getattr(module, "PRELOAD", PRELOAD))
