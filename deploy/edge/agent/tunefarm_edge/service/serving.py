"""The loop of the service: poll, update, report, wait."""

import random
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Final

from tunefarm_edge.refusal import Refused
from tunefarm_edge.service.agent import Agent, UpdateOutcome
from tunefarm_edge.service.edge_service import EdgeService
from tunefarm_edge.service.telemetry import report_latencies
from tunefarm_edge.state.edge_root import EdgeRoot

FIRST_WAIT_S: Final = 5.0
MAX_WAIT_S: Final = 900.0


class Backoff:
    """How long to wait after failures in a row: twice as long each time.

    At random, so that a fleet does not return at the same instant when its service does.
    """

    def __init__(self) -> None:
        self._limit_s = FIRST_WAIT_S

    def next_s(self) -> float:
        """The next wait, in seconds."""
        wait_s = random.uniform(self._limit_s / 2, self._limit_s)
        self._limit_s = min(self._limit_s * 2, MAX_WAIT_S)
        return wait_s

    def reset(self) -> None:
        """The service answered."""
        self._limit_s = FIRST_WAIT_S


@dataclass(frozen=True)
class Cycle:
    """How a poll ended.

    Attributes:
        wait_s: until the next poll.
        is_reached: whether the service answered all requests.
    """

    wait_s: float
    is_reached: bool


class Serving:
    """Serves a device until SIGTERM or SIGINT, which let a running step end."""

    def __init__(self, root: EdgeRoot, agent: Agent, service: EdgeService) -> None:
        self._root, self._agent, self._service = root, agent, service
        self._backoff = Backoff()
        self._ended = threading.Event()

    def stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """End the loop after the running step."""
        self._ended.set()

    def run(self) -> None:
        """Poll until ``stop``."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self.stop)
        while not self._ended.is_set():
            self._ended.wait(self._cycle().wait_s)

    def once(self) -> bool:
        """Poll once; whether the service was reached."""
        return self._cycle().is_reached

    def _cycle(self) -> Cycle:
        """One poll with its update and its reports."""
        poll_after_s = self._poll()
        if poll_after_s is None:
            return Cycle(self._backoff.next_s(), is_reached=False)
        self._backoff.reset()
        return Cycle(poll_after_s, is_reached=True)

    def _poll(self) -> float | None:
        """Recover, poll, update and report. Returns the wait that the service advises, or None if it was not reached.

        An update that an error of the device interrupted, such as too little memory for a trial, is finished or undone
        before the next one, as after a restart.
        """
        try:
            self._agent.recover()
            advice = self._service.poll(self._agent.poll)
            outcome = self._agent.update(self._service.source, advice)
            say(outcome)
            report_latencies(self._root, self._agent.spool)
            self._agent.spool.send(self._service)
        except (Refused, OSError) as problem:
            print(problem, flush=True)
            return None
        is_unreachable = outcome.refused is not None and outcome.refused.failure == "unreachable"
        return None if is_unreachable else advice.poll_after_s


def say(outcome: UpdateOutcome) -> None:
    """Tell the journal what happened, if anything did."""
    if outcome.refused is not None:
        print(outcome.refused, flush=True)
    if outcome.changed:
        print(f"running {outcome.running or 'no release'}", flush=True)
