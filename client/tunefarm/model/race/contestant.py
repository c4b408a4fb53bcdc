"""A child that runs one plan whenever it is its turn."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tunefarm.frontend.model_import import ModelSettings
from tunefarm.model.child_call import ChildEnded, ask, exchange
from tunefarm.model.race.messages import TIME, RaceSample, SampleOrder, TimeOrder
from tunefarm.model.race.plan_folder import LibraryPlan
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer

_DOING: Final = "timing"


class Contestant:
    """A plan in a confined child of its own, which is stopped between its turns: its threads may spin.

    Attributes:
        plan: what it runs.
        folder: of the model.
        first_s: seconds of a run of each entry when it was opened, summed.
        entries_s: seconds of the fastest run of each entry until now.
    """

    def __init__(
        self,
        fork_server: ForkServer,
        plan: LibraryPlan,
        folder: Path,
        library: int,
        callees: tuple[str, ...],
        functions_file: Path | None,
        *,
        timeout_s: float = float("inf"),
    ) -> None:
        """Open the model in ``folder``, and run it. Its library is in the sealed memory ``library``, which stays open.

        Raises:
            BadInput: it cannot be opened or run, or takes longer than ``timeout_s``.
        """
        self.plan, self.folder = plan, folder
        settings = ModelSettings()
        order = TimeOrder(
            folder=str(folder),
            functions=() if functions_file is not None else callees,
            functions_file=None if functions_file is None else str(functions_file),
        )
        readable = [str(folder), *([str(functions_file.parent)] if functions_file else [])]
        self._fork: Callable[[], Child] = partial(
            fork_server.fork,
            TIME,
            order.model_dump_json().encode(),
            limits=Limits(memory_bytes=settings.memory_bytes, cpu_s=settings.cpu_s),
            confinement=Confinement.strict(readable=tuple(readable), may_pin_threads=True),
            descriptors=(library,),
        )
        self.entries_s = self._open(timeout_s)
        self.first_s = sum(self.entries_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def sample_s(self) -> float:
        """Seconds of a run of each entry, summed; of each the fastest of some.

        Raises:
            BadInput: it cannot be run any more.
        """
        entries_s = self._asked(SampleOrder()).entries_s
        self.entries_s = tuple(map(min, self.entries_s, entries_s))
        return sum(entries_s)

    def profile_s(self, timeout_s: float) -> dict[str, float]:
        """Seconds of a call of each function of the program.

        Raises:
            BadInput: it ended, or takes longer than ``timeout_s``.
        """
        return dict(self._asked(SampleOrder(is_profile=True), timeout_s).functions_s)

    def _open(self, timeout_s: float) -> tuple[float, ...]:
        """Open the model in a new child, which then waits for its turn; the seconds of a run of each entry."""
        self._child = self._fork()
        try:
            first = exchange(self._child, RaceSample, "running", has_bytes=False, timeout_s=timeout_s)[0]
        except BaseException:
            self._child.close()
            raise
        self._child.stop()
        return first.entries_s

    def _asked(self, order: SampleOrder, timeout_s: float = float("inf")) -> RaceSample:
        try:
            return self._answer(order, timeout_s)
        except ChildEnded:  # all turns of the race count towards its processor seconds
            self._child.close()
        self._open(timeout_s)
        return self._answer(order, timeout_s)

    def _answer(self, order: SampleOrder, timeout_s: float) -> RaceSample:
        self._child.resume()
        try:
            return ask(self._child, order, RaceSample, _DOING, has_bytes=False, timeout_s=timeout_s)[0]
        finally:
            self._child.stop()
