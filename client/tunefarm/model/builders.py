"""Children that compile the functions of a model side by side."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tunefarm.model.child_call import ChildEnded, ask, compiling
from tunefarm.model.messages import BUILD, FunctionBuilt, FunctionOrder
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores


class FunctionBuilders:
    """Children that compile functions side by side, one for each core.

    A schedule may end its child: LLVM aborts where it has no code for an instruction of another processor. A new child
    then compiles the function without that schedule: with an untried one in place of a record's, or with none. If the
    child had compiled others before, a new one tries the same schedule first: the others may have used up its seconds.
    """

    def __init__(self, fork_server: ForkServer, folder: Path, say: Callable[[str], None]) -> None:
        self._fork_server = fork_server
        self._folder = folder
        self._say = say
        self._lock = threading.Lock()
        self._orders: list[FunctionOrder] = []
        self._problems: dict[int, str] = {}
        self._waiting: list[int] = []
        self._done: dict[int, tuple[FunctionBuilt, Path]] = {}
        self._failed: BaseException | None = None

    def run(self, orders: Sequence[FunctionOrder]) -> list[tuple[FunctionBuilt, Path]]:
        """The answers to ``orders``, in their order, with the paths of the object files."""
        self._orders = list(orders)
        self._waiting = list(range(len(orders)))
        count = min(usable_physical_cores(), len(orders)) or 1
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failed is not None:
            raise self._failed
        return [self._done[number] for number in range(len(orders))]

    def _work(self, number: int) -> None:
        own = own_folder(self._folder, f"child{number}")
        try:
            at = self._next()
            while at is not None:
                with compiling(self._fork_server, BUILD, None, folder=own) as child:
                    at = self._serve(child, at, own)
        except BaseException as error:  # noqa: BLE001 - raised again by ``run``
            with self._lock:
                self._failed = self._failed or error
                self._waiting.clear()

    def _serve(self, child: Child, at: int, own: Path) -> int | None:
        """Have ``child`` build the order ``at`` and all that wait; returns the one for a new child, if any."""
        following: int | None = at
        while following is not None:
            order = self._orders[following].model_copy(update={"folder": str(own)})
            try:
                built, contents = ask(child, order, FunctionBuilt, "building")
            except BadInput as error:
                if isinstance(error, ChildEnded) and following != at:
                    return following
                simpler = _without_schedule(order)
                if simpler is None:
                    raise
                self._problems.setdefault(following, error.problem)
                self._orders[following] = simpler
                return following
            self._keep(following, built, contents)
            following = self._next()
        return None

    def _keep(self, at: int, built: FunctionBuilt, contents: bytes) -> None:
        path = self._folder / f"{at}.o"
        path.write_bytes(contents)
        if at in self._problems:
            built = built.model_copy(update={"problem": self._problems[at]})
        with self._lock:
            self._done[at] = (built, path)
            self._say(f"built {len(self._done)} of {len(self._orders)}")

    def _next(self) -> int | None:
        with self._lock:
            return self._waiting.pop(0) if self._waiting else None


def _without_schedule(order: FunctionOrder) -> FunctionOrder | None:
    """The same function without the schedule that was tried first; None if there is no other way to compile it."""
    if order.trace is not None:
        return order.model_copy(update={"trace": None})
    return order.model_copy(update={"is_scheduled": False}) if order.is_scheduled else None


def own_folder(scratch: Path, name: str) -> Path:
    """A folder that a child of another user may write to."""
    own = scratch / name
    own.mkdir()
    own.chmod(0o777)
    return own
