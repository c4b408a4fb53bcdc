"""A child that runs one plan whenever it is its turn."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tunefarm.frontend.model_import import ModelSettings
from tunefarm.model.child_call import exchange
from tunefarm.model.race.messages import TIME, RaceSample, SampleOrder, TimeOrder
from tunefarm.model.race.plan_folder import LibraryPlan
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer

_DOING: Final = "timing"


class Contestant:
    """A plan in a confined child of its own, which is stopped between its turns: its threads may spin."""

    def __init__(
        self,
        zygote: ForkServer,
        plan: LibraryPlan,
        folder: Path,
        library: int,
        callees: tuple[str, ...],
        functions_file: Path | None,
    ) -> None:
        """Open the model in ``folder``, whose library is in the sealed memory ``library``.

        Raises:
            BadInput: it cannot be opened or run.
        """
        self.plan = plan
        settings = ModelSettings()
        order = TimeOrder(
            folder=str(folder),
            functions=() if functions_file is not None else callees,
            functions_file=None if functions_file is None else str(functions_file),
        )
        readable = [str(folder), *([str(functions_file.parent)] if functions_file else [])]
        self._child = zygote.fork(
            TIME,
            order.model_dump_json().encode(),
            limits=Limits(memory_bytes=settings.memory_bytes, cpu_s=settings.cpu_s),
            confinement=Confinement.strict(readable=tuple(readable), may_pin_threads=True),
            descriptors=(library,),
        )
        try:
            self.first_s = exchange(self._child, RaceSample, "running", has_bytes=False)[0].latency_s
        except BaseException:
            self._child.close()
            raise
        self._child.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def sample_s(self) -> float:
        """Seconds of one run, the fastest of some."""
        return self._asked(SampleOrder()).latency_s

    def profile_s(self) -> dict[str, float]:
        """Seconds of a call of each function of the program."""
        return dict(self._asked(SampleOrder(is_profile=True)).functions_s)

    def _asked(self, order: SampleOrder) -> RaceSample:
        self._child.resume()
        try:
            self._child.channel.send(order.model_dump_json().encode())
            return exchange(self._child, RaceSample, _DOING, has_bytes=False)[0]
        finally:
            self._child.stop()
