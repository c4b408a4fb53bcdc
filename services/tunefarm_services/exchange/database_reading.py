"""Reads a TVM database line by line in confined children, so that a line that crashes one costs only that line."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Final

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.views.database import RefusedLine
from tunefarm_services.exchange.database_messages import (
    FileName,
    HoldWorkloads,
    NumberedLine,
    ReaderOrder,
    ReadLines,
    UnderstoodLines,
)

ENTRY: Final = "tunefarm_services.exchange.database_child:read"
LONGEST_RECORD: Final = 1 << 20
LONGEST_WORKLOAD: Final = 16 << 20
MAX_WORKLOADS: Final = 128 << 20
"""Maximum characters of all workloads together, which each child holds."""
CHILDREN: Final = 2
BATCH_LINES: Final = 256
BATCH_CHARACTERS: Final = 4 << 20
BATCHES_OF_A_CHILD: Final = 64
"""Number of lines after which a child is replaced, so that memory that TVM keeps does not reach the limit."""
MAX_DEATHS: Final = 50
"""Maximum crashes of children, so that a file that crashes one with every line is abandoned."""


@dataclass(frozen=True)
class ReadingLimits:
    """Resource limits of the children, and time limits in seconds: for one line, and for the whole database."""

    child: Limits
    line_s: float = 10.0
    total_s: float = 3600.0


def read_database(
    fork_server: Callable[[], ForkServer],
    workloads: Iterable[str],
    records: Iterable[str],
    *,
    callees: Sequence[str],
    limits: ReadingLimits,
) -> Iterator[UnderstoodLines]:
    """The results of the lines, in order, a few hundred at a time.

    Raises:
        ForkFailed: no child could be forked to read them.
    """
    deadline_s = monotonic() + limits.total_s
    held, refused = _held(workloads)
    yield UnderstoodLines(refused=tuple(refused))
    shared = {line.number: line for line in held}
    sessions = [_Session(fork_server, shared, tuple(callees), limits, deadline_s) for _ in range(CHILDREN)]
    waiting: deque[Future[UnderstoodLines]] = deque()
    threads = [ThreadPoolExecutor(1) for _ in sessions]
    try:
        for number, batch in enumerate(_batches(held, records)):
            place = number % CHILDREN
            waiting.append(threads[place].submit(sessions[place].understood, batch))
            if len(waiting) > CHILDREN * 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for thread in threads:
            thread.shutdown(wait=True, cancel_futures=True)
        for session in sessions:
            session.close()


def _held(workloads: Iterable[str]) -> tuple[list[NumberedLine], list[RefusedLine]]:
    held: list[NumberedLine] = []
    refused: list[RefusedLine] = []
    characters = 0
    for number, text in enumerate(workloads, start=1):
        characters += len(text)
        if len(text) > LONGEST_WORKLOAD or characters > MAX_WORKLOADS:
            refused.append(RefusedLine(file="workloads", line=number, reason="the line, or the file, is too long"))
        else:
            held.append(NumberedLine(number=number, text=text))
    return held, refused


def _batches(held: Sequence[NumberedLine], records: Iterable[str]) -> Iterator[ReadLines]:
    blank = (NumberedLine(number=line.number, text="") for line in held)
    yield from _batches_of("workloads", blank)
    yield from _batches_of("records", (NumberedLine(number=n, text=text) for n, text in enumerate(records, start=1)))


def _batches_of(file: FileName, lines: Iterable[NumberedLine]) -> Iterator[ReadLines]:
    batch: list[NumberedLine] = []
    characters = 0
    for line in lines:
        batch.append(line)
        characters += len(line.text)
        if len(batch) >= BATCH_LINES or characters > BATCH_CHARACTERS:
            yield ReadLines(file=file, lines=tuple(batch))
            batch, characters = [], 0
    if batch:
        yield ReadLines(file=file, lines=tuple(batch))


class _Session:
    """A sequence of children, each with the workloads in its memory. Sessions share ``held``, by number."""

    def __init__(
        self,
        fork_server: Callable[[], ForkServer],
        held: dict[int, NumberedLine],
        callees: tuple[str, ...],
        limits: ReadingLimits,
        deadline_s: float,
    ) -> None:
        self._fork_server = fork_server
        self._held = held
        self._callees = callees
        self._limits = limits
        self._deadline_s = deadline_s
        self._child: Child | None = None
        self._batches = 0
        self._deaths = 0

    def understood(self, batch: ReadLines) -> UnderstoodLines:
        """The results of a batch. Rejects a line that crashes the child, and reads the others again."""
        refused = [_refused(batch, line, "the line is too long") for line in batch.lines if _is_too_long(line)]
        lines = [line for line in batch.lines if not _is_too_long(line)]
        answer = UnderstoodLines()
        while lines:
            reason = self._reason_to_stop()
            if reason:
                refused += [_refused(batch, line, reason) for line in lines]
                break
            found, why = self._exchange(ReadLines(file=batch.file, lines=tuple(lines)))
            if isinstance(found, UnderstoodLines):
                answer = found
                break
            if found.startswith(b"w"):
                number = int(found[1:])
                lines = [line for line in lines if batch.file == "records" or line.number != number]
                if self._held.pop(number, None) is not None:
                    refused.append(RefusedLine(file="workloads", line=number, reason=why))
                continue
            culprit = next((line for line in lines if found == b"%d" % line.number), lines[0])
            lines.remove(culprit)
            refused.append(_refused(batch, culprit, why))
        refused += answer.refused
        return answer.model_copy(update={"refused": tuple(sorted(refused, key=lambda each: each.line))})

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.close()
            self._child = None

    def _reason_to_stop(self) -> str:
        if self._deaths >= MAX_DEATHS:
            return f"it was not read: {MAX_DEATHS} lines before it crashed the process that read them"
        if monotonic() > self._deadline_s:
            return f"it was not read: the import took longer than {self._limits.total_s:g} s"
        return ""

    def _exchange(self, request: ReadLines) -> tuple[UnderstoodLines | bytes, str]:
        """The answer, or the last progress message of a child that died, and how it died."""
        child, progress = self._live_child(), b""
        try:
            child.channel.send(request.model_dump_json().encode(), timeout_s=self._limits.line_s)
            while True:
                message = child.channel.receive(self._limits.line_s)
                if message.startswith(b"{"):
                    return UnderstoodLines.model_validate_json(message), ""
                progress = message
        except TimeoutError:
            why = f"reading it took longer than {self._limits.line_s:g} s"
        except ChannelClosed:
            ended = child.exit(2.0)
            why = f"reading it crashed a process: {'no answer' if ended is None else ended.described()}"
        self.close()
        self._deaths += 1
        return progress, why

    def _live_child(self) -> Child:
        self._batches += 1
        if self._child is not None and self._batches % BATCHES_OF_A_CHILD == 0:
            self.close()
        if self._child is None:
            order = ReaderOrder(callees=self._callees).model_dump_json().encode()
            confinement = Confinement.strict()
            self._child = self._fork_server().fork(ENTRY, order, limits=self._limits.child, confinement=confinement)
            for held in _batches_of("workloads", list(self._held.values())):
                message = HoldWorkloads(lines=held.lines).model_dump_json().encode()
                self._child.channel.send(message, timeout_s=self._limits.line_s)
        return self._child


def _is_too_long(line: NumberedLine) -> bool:
    return len(line.text) > LONGEST_RECORD


def _refused(batch: ReadLines, line: NumberedLine, reason: str) -> RefusedLine:
    return RefusedLine(file=batch.file, line=line.number, reason=reason)
