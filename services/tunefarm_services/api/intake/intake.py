"""Intake of everything that requires TVM to read: a port, and its implementation with a zygote."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, Protocol

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import Answer
from tunefarm_schemas.frozen import Frozen
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_services.api.intake.confined_call import confined_call
from tunefarm_services.api.intake.intake_messages import (
    DatabaseEntries,
    DatabaseText,
    ModuleAnswer,
    ModuleQuestion,
    TargetAnswer,
    TargetText,
)
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.exchange.database_messages import UnderstoodLines
from tunefarm_services.exchange.database_reading import ReadingLimits, read_database
from tunefarm_services.same_workload import SameAnswer, SameQuestion

CHILD: Final = "tunefarm_services.api.intake.intake_child"
READER: Final = "tunefarm_services.exchange.database_child"
PRELOAD: Final = (LOAD_TVM, CHILD, READER)

TARGETS_KEPT: Final = 256

IntakeState = Literal["asleep", "loading", "ready", "failed"]
"""``asleep``: it starts to load with the first request."""


class Intake(Protocol):
    """Reads input. Raises BadInput for invalid input, ForkFailed if no child could be forked."""

    def start(self) -> None:
        """Start in the background."""

    def state(self) -> IntakeState:
        """Whether requests are answered at once."""

    def read(self, question: ModuleQuestion) -> ModuleAnswer:
        """Read workloads, a target, sketches and seed traces."""

    def same(self, question: SameQuestion) -> SameAnswer:
        """Find stored workloads that are equal to others."""

    def target(self, question: TargetText) -> TargetAnswer:
        """Convert a target to canonical form."""

    def knows_target(self, question: TargetText) -> bool:
        """Whether ``target`` returns without a child."""

    def read_database(
        self, workloads: Iterable[str], records: Iterable[str], callees: Sequence[str]
    ) -> Iterator[UnderstoodLines]:
        """Read the lines of a TVM database, a few hundred at a time; yields the valid ones."""

    def write_database(self, question: DatabaseEntries) -> DatabaseText:
        """Write records as a TVM database."""

    def close(self) -> None:
        """End it."""


class ZygoteIntake:
    """An intake that asks children of a process with TVM loaded. Threads may share it."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._limits = Limits(
            memory_bytes=settings.intake_memory_bytes,
            cpu_s=settings.intake_timeout_s * 2,
            file_size_bytes=1 << 20,
            open_files=256,
        )
        self._starting = threading.Lock()
        self._zygote: ForkServer | None = None
        self._targets: dict[TargetText, TargetAnswer] = {}

    def start(self) -> None:
        """Start the process; it loads TVM in the background."""
        self._living()

    def state(self) -> IntakeState:
        """Whether TVM is loaded."""
        zygote = self._zygote
        if zygote is None:
            return "asleep"
        if not zygote.alive:
            return "failed"
        return "ready" if zygote.ready(0) else "loading"

    def read(self, question: ModuleQuestion) -> ModuleAnswer:
        """Read workloads, a target, sketches and seed traces."""
        return self._ask("read", question, ModuleAnswer, "module", self._settings.intake_timeout_s)

    def same(self, question: SameQuestion) -> SameAnswer:
        """Find stored workloads that are equal to others."""
        return self._ask("same", question, SameAnswer, "module", self._settings.intake_timeout_s)

    def target(self, question: TargetText) -> TargetAnswer:
        """Convert a target to canonical form; cached, because the result never changes."""
        known = self._targets.get(question)
        if known is None:
            known = self._ask("target", question, TargetAnswer, "target", self._settings.intake_timeout_s)
            if len(self._targets) >= TARGETS_KEPT:
                self._targets.clear()
            self._targets[question] = known
        return known

    def knows_target(self, question: TargetText) -> bool:
        """Whether the result is cached."""
        return question in self._targets

    def read_database(
        self, workloads: Iterable[str], records: Iterable[str], callees: Sequence[str]
    ) -> Iterator[UnderstoodLines]:
        """Read the lines of a TVM database, a few hundred at a time; yields the valid ones."""
        settings = self._settings
        child = self._limits.model_copy(update={"cpu_s": settings.import_timeout_s * 2})
        limits = ReadingLimits(child, line_s=settings.intake_timeout_s, total_s=settings.import_timeout_s)
        return read_database(self._living, workloads, records, callees=callees, limits=limits)

    def write_database(self, question: DatabaseEntries) -> DatabaseText:
        """Write records as a TVM database."""
        return self._ask("write_database", question, DatabaseText, "record_ids", self._settings.import_timeout_s)

    def close(self) -> None:
        """End the process and its children."""
        with self._starting:
            if self._zygote is not None:
                self._zygote.close()

    def _ask(self, function: str, question: Frozen, answer: type[Answer], field: str, timeout_s: float) -> Answer:
        limits = self._limits.model_copy(update={"cpu_s": timeout_s * 2})
        entry = f"{CHILD}:{function}"
        for is_last in (False, True):
            try:
                return confined_call(
                    self._living(), entry, question, answer, field=field, limits=limits, timeout_s=timeout_s
                )
            except ForkFailed as failed:
                if is_last or failed.kind != "server_lost":
                    raise
        raise AssertionError("unreachable")

    def _living(self) -> ForkServer:
        """The process, restarted if it died."""
        with self._starting:
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    self._zygote.close()
                self._zygote = ForkServer.start(PRELOAD)
            return self._zygote
