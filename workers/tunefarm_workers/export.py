"""From a schedule to a shared library that was timed in fresh processes."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from tunefarm_sandbox.channel import ChannelClosed
from tunefarm_sandbox.child import Child
from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkFailed, ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_schemas.device import PROTOCOLS
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.measurement import Exported, ExportOrder, ExportResult, Failed
from tunefarm_workers.argument import Argument
from tunefarm_workers.child_death import failure_of_death
from tunefarm_workers.element_type import numpy_type
from tunefarm_workers.fresh_process import package_folders
from tunefarm_workers.messages import Broken, FreshOrder, FreshTiming, HostOrder, Linked, LinkOrder, from_linker
from tunefarm_workers.tolerance import Array

_LINK_S = 120.0
_LOAD_S = 60.0
_TIME_S = 60.0


class ExportFailed(Exception):
    """Raised inside an export when it cannot go on; carries the failure that its caller gets."""

    def __init__(self, failure: TrialFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Quiet(Protocol):
    """Runs something while the device is quiet."""

    def __call__(self, action: Callable[[], float]) -> float:
        """What ``action`` gives."""


class Exporter:
    """Compiles, loads in fresh processes, checks and times. Works on its caller's thread."""

    def __init__(
        self,
        zygote: ForkServer,
        scratch: Path,
        limits: Limits,
        quiet: Quiet,
        error_of: Callable[[list[Array]], float],
    ) -> None:
        """``error_of`` gives the error of outputs on the first inputs, in units of what is allowed."""
        self._zygote = zygote
        self._scratch = scratch
        self._limits = limits
        self._quiet = quiet
        self._error_of = error_of

    def export(
        self, order: ExportOrder, host: HostOrder, arguments: tuple[Argument, ...], protocol_id: str
    ) -> ExportResult:
        """The library and its latencies, or the failure that kept it from being made."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="export-", dir=self._scratch))
        try:
            linked, library = self._link(order, host, folder)
            (folder / "shipped.so").write_bytes(library)
            fresh = FreshOrder(
                library=str(folder / "shipped.so"),
                digest=digest(library),
                entry=linked.entry,
                pack_entry=linked.pack_entry,
                arguments=arguments,
                packed_arguments=linked.packed_arguments,
                num_cores=host.num_cores,
                cold_cache=PROTOCOLS[protocol_id].cold_cache,
                seed=host.seed,
                distribution=host.distribution,
            )
            latencies_s = self._time_in_fresh_processes(fresh, folder, order.processes)
        except ExportFailed as failed:
            return Failed(failure=failed.failure)
        except ForkFailed as error:
            message = f"No child could be forked: {error}"[:4000]
            return Failed(failure=TrialFailure(reason=FailureReason.DEVICE_LOST, message=message))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return Exported(
            library=library,
            entry=linked.entry,
            pack_entry=linked.pack_entry,
            packed_arguments=linked.packed_arguments,
            process_latencies_s=latencies_s,
        )

    def _link(self, order: ExportOrder, host: HostOrder, folder: Path) -> tuple[Linked, bytes]:
        own = folder / "link"
        own.mkdir(mode=0o777)
        trace = None if order.trace is None else order.trace.text
        with self._zygote.fork(
            "tunefarm_workers.link_child:run",
            LinkOrder(host=host, trace=trace, folder=str(own)).model_dump_json().encode(),
            limits=self._limits,
            confinement=Confinement.compiler(str(own)),
        ) as child:
            said = from_linker.validate_json(_hear(child, _LINK_S, "building"))
            if isinstance(said, Broken):
                raise ExportFailed(TrialFailure(reason=said.reason, message=said.message[:4000]))
            return said, _hear(child, _LINK_S, "building")

    def _time_in_fresh_processes(self, order: FreshOrder, folder: Path, processes: int) -> tuple[float, ...]:
        """They start side by side, and are timed one after the other."""
        with ExitStack() as stack:
            children = [stack.enter_context(self._start(order, folder)) for _ in range(processes)]
            for child in children:
                _hear(child, _LOAD_S, "loading the library")
                self._check(child, order)
            return tuple(self._quiet(partial(_time, child)) for child in children)

    def _start(self, order: FreshOrder, folder: Path) -> Child:
        child = self._zygote.fork(
            "tunefarm_workers.fresh_process:become_runner",
            str(order.num_cores).encode(),
            limits=self._limits,
            confinement=Confinement(readable=(str(folder), *package_folders()), may_exec=True),
        )
        child.channel.send(order.model_dump_json().encode(), timeout_s=_LOAD_S)
        return child

    def _check(self, child: Child, order: FreshOrder) -> None:
        outputs = []
        for argument in order.arguments:
            tensor = argument.tensor
            if tensor.is_output:
                contents = _hear(child, _LOAD_S, "sending its outputs")
                kind = numpy_type(tensor.dtype)
                if len(contents) != tensor.elements * kind.itemsize:
                    message = f"The library gave {len(contents)} bytes for {tensor.name}."
                    raise ExportFailed(TrialFailure(reason=FailureReason.CRASH, message=message))
                outputs.append(np.frombuffer(contents, kind).reshape(tensor.shape))
        error = self._error_of(outputs)
        if error > 1.0:
            message = f"The library's output is wrong: its error is {error:.3g} times what is allowed."
            raise ExportFailed(TrialFailure(reason=FailureReason.WRONG_RESULT, message=message))


def _time(child: Child) -> float:
    child.channel.send(b"go", timeout_s=_TIME_S)
    return FreshTiming.model_validate_json(_hear(child, _TIME_S, "running")).timing.latency_s


def _hear(child: Child, timeout_s: float, doing: str) -> bytes:
    try:
        return child.channel.receive(timeout_s=timeout_s)
    except ChannelClosed as closed:
        death = child.exit(timeout_s=1.0)
        raise ExportFailed(failure_of_death(death, doing, child.output())) from closed
    except TimeoutError as late:
        reason = FailureReason.BUILD_TIMEOUT if doing == "building" else FailureReason.RUN_TIMEOUT
        raise ExportFailed(TrialFailure(reason=reason, message=f"It was {doing} for {timeout_s:.0f} s.")) from late
