"""Intake of everything that requires TVM to read."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import structlog

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import Answer, Fixes, ask
from tunefarm_schemas.frozen import Frozen
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_services.api.intake.fair_slots import child_niceness
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
from tunefarm_services.record_views.code_messages import CODE_CHILD, CODE_ENTRY, CODE_FIXES, CodeQuestion, CodeText
from tunefarm_services.same_workload import SAME_ENTRY, SameAnswer, SameQuestion

CHILD: Final = "tunefarm_services.api.intake.intake_child"
READER: Final = "tunefarm_services.exchange.database_child"
PRELOAD: Final = (LOAD_TVM, CHILD, READER, CODE_CHILD)

TARGETS_KEPT: Final = 256
FIXES: Final = Fixes(
    too_large="Send fewer modules in one request.",
    ended="Send the unchanged output of tvm.ir.save_json for a module of TIR functions.",
    late="Send one function at a time.",
)

log = structlog.get_logger()

IntakeState = Literal["asleep", "loading", "ready", "failed"]
"""``asleep``: it starts to load with the first request."""


class Intake:
    """Reads input in children of a process with TVM loaded. Threads may share it.

    Raises BadInput for invalid input, ForkFailed if no child could be forked.
    """

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._limits = Limits(
            memory_bytes=settings.intake_memory_bytes,
            file_size_bytes=1 << 20,
            open_files=256,
        )
        self._starting = threading.Lock()
        self._fork_server: ForkServer | None = None
        self._targets: dict[TargetText, TargetAnswer] = {}

    def start(self) -> None:
        """Start the process; it loads TVM in the background."""
        self._living()

    def state(self) -> IntakeState:
        """Whether TVM is loaded."""
        fork_server = self._fork_server
        if fork_server is None:
            return "asleep"
        if not fork_server.alive:
            return "failed"
        return "ready" if fork_server.ready(0) else "loading"

    def read(self, question: ModuleQuestion) -> ModuleAnswer:
        """Read workloads, a target, sketches and seed traces."""
        return self._ask(f"{CHILD}:read", question, ModuleAnswer, "module", self._settings.intake_timeout_s)

    def same(self, question: SameQuestion) -> SameAnswer:
        """Find stored workloads that are equal to others."""
        return self._ask(SAME_ENTRY, question, SameAnswer, "module", self._settings.intake_timeout_s)

    def target(self, question: TargetText) -> TargetAnswer:
        """Convert a target to canonical form; cached, because the result never changes."""
        known = self._targets.get(question)
        if known is None:
            known = self._ask(f"{CHILD}:target", question, TargetAnswer, "target", self._settings.intake_timeout_s)
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
        child = self._limits_within(settings.import_timeout_s)
        limits = ReadingLimits(child, line_s=settings.intake_timeout_s, total_s=settings.import_timeout_s)
        return read_database(self._living, workloads, records, callees=callees, limits=limits)

    def write_database(self, question: DatabaseEntries) -> DatabaseText:
        """Write records as a TVM database."""
        return self._ask(
            f"{CHILD}:write_database", question, DatabaseText, "record_ids", self._settings.import_timeout_s
        )

    def code(self, question: CodeQuestion) -> CodeText:
        """Write a text of a record's code."""
        timeout_s = self._settings.intake_timeout_s
        return self._ask(CODE_ENTRY, question, CodeText, "record", timeout_s, fixes=CODE_FIXES)

    def close(self) -> None:
        """End the process and its children."""
        with self._starting:
            if self._fork_server is not None:
                self._fork_server.close()

    def _ask(
        self,
        entry: str,
        question: Frozen,
        answer: type[Answer],
        field: str,
        timeout_s: float,
        *,
        fixes: Fixes = FIXES,
    ) -> Answer:
        limits = self._limits_within(timeout_s)
        for is_last in (False, True):
            try:
                return ask(
                    self._living(),
                    entry,
                    question,
                    answer,
                    field=field,
                    fixes=fixes,
                    limits=limits,
                    timeout_s=timeout_s,
                    described=_logged,
                )
            except ForkFailed as failed:
                if is_last or failed.kind != "server_lost":
                    raise
        raise AssertionError("unreachable")

    def _limits_within(self, timeout_s: float) -> Limits:
        return self._limits.model_copy(update={"cpu_s": timeout_s * 2, "niceness": child_niceness.get()})

    def _living(self) -> ForkServer:
        """The process, restarted if it died."""
        with self._starting:
            if self._fork_server is None or not self._fork_server.alive:
                if self._fork_server is not None:
                    self._fork_server.close()
                self._fork_server = ForkServer.start(PRELOAD)
            return self._fork_server


def _logged(how: str, output: str) -> str:
    """Log the output of a child that died, which the caller must not see."""
    log.warning("intake child died", ended=how, output=output[-2000:])
    return f"{how}."
