"""Rivals in processes of their own, timed by turns. All but the one whose turn it is are stopped."""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Self, TypeVar

from benchmarks.child_process import CommandFailed
from benchmarks.models.rival_process import ProcessOrder, RivalReady, RivalSample
from tunefarm_schemas.frozen import Frozen

Answer = TypeVar("Answer", RivalReady, RivalSample)
OPEN_TIMEOUT_S, SAMPLE_TIMEOUT_S = 1800.0, 300.0


class RivalResult(Frozen):
    """One rival on one model. ``failure`` is the reason why there are no samples; ``ready`` is then None or wrong."""

    rival: str
    ready: RivalReady | None
    samples: tuple[RivalSample, ...]
    failure: str | None = None

    @property
    def goes_on(self) -> bool:
        """Whether there is more to time: it has not failed, and no single call is its time."""
        return self.failure is None and not (self.ready is not None and self.ready.once)

    @property
    def seconds(self) -> tuple[float, ...]:
        """Seconds per call, one of each round."""
        return tuple(sample.call_s for sample in self.samples)


class RivalChild:
    """A process that runs one rival."""

    def __init__(self, order: ProcessOrder) -> None:
        """Start it."""
        self.order = order
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
        threads = str(order.threads)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.models.rival_process"],
            env={**os.environ, "TVM_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._errors.close()

    def open(self) -> RivalReady:
        """Wait until it has loaded the model and compared its outputs; it is stopped then.

        Raises:
            CommandFailed: it ended, or took too long.
        """
        ready = self._ask(self.order.model_dump_json(), RivalReady, OPEN_TIMEOUT_S)
        self._signal(signal.SIGSTOP)
        return ready

    def sample(self) -> RivalSample:
        """Let it run for one sample.

        Raises:
            CommandFailed: as in ``open``.
        """
        self._signal(signal.SIGCONT)
        try:
            return self._ask("", RivalSample, SAMPLE_TIMEOUT_S)
        finally:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _ask(self, question: str, answer: type[Answer], timeout_s: float) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("ended") from None
        line = _line(self._process.stdout, time.monotonic() + timeout_s)
        if line is None:
            raise self._failed(f"gave no answer within {timeout_s:.0f} s")
        if not line:
            raise self._failed("ended")
        return answer.model_validate_json(line)

    def _failed(self, problem: str) -> CommandFailed:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return CommandFailed(f"{problem}: {_reason(lines)}")


def _reason(lines: list[str]) -> str:
    """The last line that names an error: what frameworks print after it is advice."""
    named = [
        line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "BadInput", "Unsupported"))
    ]
    return (named or lines or ["it printed nothing"])[-1][-400:]


def _line(stream: IO[str], until_s: float) -> str | None:
    """A line, an empty string at the end of the stream, None if there is none in time."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        if not selector.select(max(0.0, until_s - time.monotonic())):
            return None
    return stream.readline()


def time_by_turns(orders: Sequence[ProcessOrder], rounds: int, processes: int = 1) -> tuple[RivalResult, ...]:
    """Open the rivals one after the other, then take ``rounds`` samples; each round begins with a different rival.

    Each rival has ``processes`` processes, one after the other, which share the rounds: where its memory lies differs
    from process to process, and with it the times of small operators by some percent.
    """
    results = {order.rival: RivalResult(rival=order.rival, ready=None, samples=()) for order in orders}
    for number in range(processes):
        _take_turns(results, orders, len(range(number, rounds, processes)))
    return tuple(results.values())


def _take_turns(results: dict[str, RivalResult], orders: Sequence[ProcessOrder], rounds: int) -> None:
    """Take ``rounds`` samples more of each rival that goes on."""
    children: deque[RivalChild] = deque()
    try:
        for order in orders:
            if results[order.rival].goes_on:
                children.append(RivalChild(order))
                _keep(results, children[-1], _opened)
        for _ in range(rounds):
            for child in children:
                if results[child.order.rival].goes_on:
                    _keep(results, child, _sampled)
            children.rotate(-1)
    finally:
        for child in children:
            child.__exit__(None, None, None)


def _keep(
    results: dict[str, RivalResult], child: RivalChild, step: Callable[[RivalResult, RivalChild], RivalResult]
) -> None:
    result = results[child.order.rival]
    try:
        results[result.rival] = step(result, child)
    except CommandFailed as error:
        results[result.rival] = result.model_copy(update={"failure": str(error)})


def _opened(result: RivalResult, child: RivalChild) -> RivalResult:
    ready = child.open()
    samples = (RivalSample(call_s=ready.first_call_s, calls=1),) if ready.once else result.samples
    return result.model_copy(update={"ready": ready, "samples": samples})


def _sampled(result: RivalResult, child: RivalChild) -> RivalResult:
    return result.model_copy(update={"samples": (*result.samples, child.sample())})
