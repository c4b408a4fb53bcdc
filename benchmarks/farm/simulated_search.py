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
"""As many candidates as a real search puts into one message."""


class SimulatedSearch:
    """The process, seen from a search session: as a forked search child is.

    Attributes:
        channel: carries messages to it and from it.
    """

    def __init__(self, exploration_id: str, in_flight: int, most: int | None = None) -> None:
        """``in_flight`` candidates are under way at once; at most ``most`` in all."""
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
        limit = [] if most is None else [str(most)]
        self._process = subprocess.Popen([*command, *limit], cwd=ROOT, pass_fds=(descriptor,))
        os.close(descriptor)

    def stop(self) -> None:
        """Stop proposing; the search ends when all candidates are measured."""
        self.channel.send(StopSearching().model_dump_json().encode())

    def exit(self, _timeout_s: float | None = None) -> None:
        """Nothing is known of its end."""

    def output(self) -> str:
        """It says nothing."""
        return ""

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self.channel.close()


def _traces() -> list[Trace]:
    """The table's points as traces with their decisions in place."""
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


def _listen(channel: Channel, heard: "SimpleQueue[Any]") -> None:
    while True:
        try:
            heard.put(to_search.validate_json(channel.receive()))
        except ChannelClosed:
            os._exit(0)


def main() -> None:
    """Propose until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exploration_id")
    parser.add_argument("in_flight", type=int)
    parser.add_argument("descriptor", type=int)
    parser.add_argument("most", type=int, nargs="?", default=sys.maxsize)
    options = parser.parse_args()
    channel = Channel(options.descriptor)
    traces = _traces()
    heard: SimpleQueue[ToSearch] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, heard), daemon=True).start()
    proposed = under_way = 0
    goes_on = True
    while True:
        wanted = min(options.in_flight - under_way, options.most - proposed) if goes_on else 0
        _propose(channel, options.exploration_id, range(proposed, proposed + wanted), traces)
        proposed, under_way = proposed + wanted, under_way + wanted
        if not under_way:
            break
        message = heard.get()
        if isinstance(message, MeasuredMessage):
            under_way -= len(message.measurements)
        else:
            goes_on = False
    channel.send(SearchEnded(stop_reasons={options.exploration_id: StopReason.TRIALS}).model_dump_json().encode())
    threading.Event().wait()


if __name__ == "__main__":
    main()
