"""A farm of real processes, with a supervisor that restarts dead ones: API, tuners, workers, Redis."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from tests.farm.workers import ROOT, START, eventually
from tests.servers.postgres_server import empty_database
from tests.servers.processes import runs
from tests.servers.redis_server import RedisServer
from tests.service.conftest import die_with_the_tests, environment_of
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_services.store import Store

TUNERS = 2
WORKERS = 3
AGAIN_S = 0.5
"""The delay before the supervisor restarts a process."""
END_S = 120.0
LISTENS_S = 300.0
OF_WORKERS = ("worker", "worker's fork server", "child of a worker's fork server")
OF_TUNERS = ("tuner", "tuner's fork server", "search", "below a search")
OF_THE_API = ("API", "process of the API", "API's fork server", "intake child")
"""The roles of processes by their depth below the started one; all deeper ones have the last role."""


@dataclass(eq=False)
class Part:
    """One process of the farm, across restarts."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    process: "subprocess.Popen[bytes] | None" = None
    began_s: float = 0.0

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def listens(self) -> bool:
        """Whether it already handles SIGTERM."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    def start(self) -> None:
        self.began_s = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_the_tests,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")


class WholeFarm:
    """A farm with simulated devices and otherwise real parts. Call its methods from one thread."""

    def __init__(
        self, home: Path, database_url: str, broker: RedisServer, lanes: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        """``lanes`` are additions to the environments of workers; simulated devices by default."""
        self.home = home
        self.broker = broker
        self.store = Store.open(database_url, home / "blobs")  # which creates the tables
        environment = environment_of(
            home, TUNEFARM_DATABASE_URL=database_url, TUNEFARM_BROKER_URL=broker.url, PYTHONPATH=str(ROOT)
        )
        tunefarm = (sys.executable, "-m", "tunefarm.cli.command_line")
        self.api = Part("API", (*tunefarm, "serve", "--port", "0", "--no-tuner"), environment, home / "api.log")
        self.tuners = [
            Part(f"tuner {number}", (*tunefarm, "tuner", "--jobs-at-once", "3"), environment, home / f"t{number}.log")
            for number in range(TUNERS)
        ]
        self.workers = [
            Part(f"worker {number}", (sys.executable, "-c", START), environment | {**own}, home / f"w{number}.log")
            for number, own in enumerate([lane(number) for number in range(WORKERS)] if lanes is None else lanes)
        ]

    @property
    def parts(self) -> list[Part]:
        return [*self.workers, *self.tuners, self.api]

    def __enter__(self) -> Self:
        try:
            for part in self.parts:
                part.start()
            eventually(self._is_ready, what="readiness")
        except BaseException as trouble:
            self.__exit__(type(trouble))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for part in self.parts:
                print(f"--- {part.name}\n{part.said()[-4000:]}")
        for part in self.parts:
            if part.runs:
                assert part.process is not None
                part.process.kill()
                part.process.wait()
        self.store.close()

    def revive(self) -> None:
        """Start all dead processes."""
        if self.broker.pid is None:
            self.broker.start()
        for part in self.parts:
            if not part.runs and time.monotonic() > part.began_s + AGAIN_S:
                part.start()

    def stop(self) -> dict[str, int]:
        """Stop everything in order, as an operator does, and return the exit status of each part.

        Waits for parts that were just restarted: before they handle signals, a signal kills them.
        """
        eventually(lambda: all(part.listens for part in self.parts), LISTENS_S, "listening to signals")
        for part in self.parts:
            part.process.terminate()  # type: ignore[union-attr]
        return {part.name: part.process.wait(END_S) for part in self.parts}  # type: ignore[union-attr]

    def processes(self) -> dict[str, list[int]]:
        """All running processes of the farm, at any depth, by role."""
        found: dict[str, list[int]] = {} if self.broker.pid is None else {"Redis": [self.broker.pid]}
        for roles, parts in ((OF_WORKERS, self.workers), (OF_TUNERS, self.tuners), (OF_THE_API, [self.api])):
            for depth, pid in (place for part in parts for place in places_in_tree(part)):
                found.setdefault(roles[min(depth, len(roles) - 1)], []).append(pid)
        return found

    def _is_ready(self) -> bool:
        ready = sum(lane.state in (LaneState.READY, LaneState.BUSY) for lane in self.store.lanes.find())
        return ready == len(self.workers) and (self.home / "api.json").exists()


def places_in_tree(part: Part) -> Iterator[tuple[int, int]]:
    """Every running process of a part: its depth below the started one, and its id."""
    level, depth = [psutil.Process(part.pid)] if part.runs else [], 0
    while level:
        yield from ((depth, process.pid) for process in level)
        level, depth = [child for process in level for child in children(process)], depth + 1


def children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [child for child in process.children() if runs(child)]
    return []


def lane(number: int) -> dict[str, str]:
    return {
        "TUNEFARM_WORKER_NAME": f"worker {number}",
        "TUNEFARM_WORKER_FARM": "benchmarks.farm.simulated_lane:build",
        "TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT": "1",
        "TUNEFARM_SIMULATED_SECONDS": "0.1",
        "TUNEFARM_SIMULATED_ROOM": "4",
    }


@contextmanager
def running_farm(home: Path) -> Iterator[WholeFarm]:
    with ExitStack() as stack:
        url = stack.enter_context(empty_database("kills"))
        broker = stack.enter_context(RedisServer())
        yield stack.enter_context(WholeFarm(home, url, broker))


def owns_its_database() -> bool:
    """Whether the database server belongs to the test, which may kill it."""
    return "TUNEFARM_TEST_POSTGRES_URL" not in os.environ
