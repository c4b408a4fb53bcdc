"""A search without computation: for each result it proposes the next schedule of a table."""

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from benchmarks.comparison.recorded_times import TABLE
from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_schemas.tuning.job import StopReason
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.search.search_messages import (
    MeasuredMessage,
    Proposed,
    SearchEnded,
    StopSearching,
    ToSearch,
    to_search,
)

ROOT: Final = Path(__file__).parents[2]
AT_ONCE: Final = 32
"""Candidates per message of a real search."""


class SimulatedSearch:
    """The search process as a session sees it, in place of a forked search child.

    Attributes:
        channel: messages to and from the process.
    """

    def __init__(self, exploration_id: str, in_flight: int, limit: int | None = None) -> None:
        """``in_flight`` candidates at the same time, at most ``limit`` in total."""
        self.channel, descriptor = Channel.pair()
        os.set_inheritable(descriptor, True)
        command = [
            sys.executable,
            "-m",
            "benchmarks.farm.simulated_search",
            exploration_id,
            str(in_flight),
            str(descriptor),
        ]
        limits = [] if limit is None else [str(limit)]
        self._process = subprocess.Popen([*command, *limits], cwd=ROOT, pass_fds=(descriptor,))
        os.close(descriptor)

    def stop(self) -> None:
        """Stop proposing; the search ends when all candidates are measured."""
        self.channel.send(StopSearching().model_dump_json().encode())

    def exit(self, _timeout_s: float | None = None) -> None:
        """Unknown."""

    def output(self) -> str:
        """No output."""
        return ""

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self.channel.close()


def _traces() -> list[Trace]:
    """The table's points as traces with their decisions."""
    from tunefarm_search.replay.replay_table import ReplayTable

    return list(ReplayTable.from_json(TABLE.read_text(encoding="utf-8")).traces())


def _propose(channel: Channel, exploration_id: str, numbers: Sequence[int], traces: Sequence[Trace]) -> None:
    for begin in range(0, len(numbers), AT_ONCE):
        candidates = tuple(
            Candidate(
                exploration_id=exploration_id,
                number=number,
                trace=traces[number % len(traces)],
                module_hash=str(number),
                origin=CandidateOrigin.EVOLVED,
            )
            for number in numbers[begin : begin + AT_ONCE]
        )
        channel.send(Proposed(candidates=candidates).model_dump_json().encode())


def _receive(channel: Channel, inbox: "SimpleQueue[Any]") -> None:
    while True:
        try:
            inbox.put(to_search.validate_json(channel.receive()))
        except ChannelClosed:
            os._exit(0)


def main() -> None:
    """Propose until the tuner stops the search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exploration_id")
    parser.add_argument("in_flight", type=int)
    parser.add_argument("descriptor", type=int)
    parser.add_argument("limit", type=int, nargs="?", default=sys.maxsize)
    options = parser.parse_args()
    channel = Channel(options.descriptor)
    traces = _traces()
    inbox: SimpleQueue[ToSearch] = SimpleQueue()
    threading.Thread(target=_receive, args=(channel, inbox), daemon=True).start()
    proposed = in_flight = 0
    is_proposing = True
    while True:
        new = min(options.in_flight - in_flight, options.limit - proposed) if is_proposing else 0
        _propose(channel, options.exploration_id, range(proposed, proposed + new), traces)
        proposed, in_flight = proposed + new, in_flight + new
        if not in_flight:
            break
        message = inbox.get()
        if isinstance(message, MeasuredMessage):
            in_flight -= len(message.measurements)
        else:
            is_proposing = False
    channel.send(SearchEnded(stop_reasons={options.exploration_id: StopReason.TRIALS}).model_dump_json().encode())
    threading.Event().wait()


if __name__ == "__main__":
    main()
