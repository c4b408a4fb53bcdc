"""Times a record's schedule beside the other finalists of its search, later and over a longer time.

The verification that chose the winner took some tenths of a second, on a host as it was then. A winner has flipped if
another finalist is faster in every later comparison; the regret is what choosing the fastest of them would have saved.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tunefarm.local.machine import LocalMachine
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import ComparisonOrder, MeasureTask, Timing
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT

OTHERS: Final = 5
COMPARISONS: Final = 5
"""Each in a process of its own: where machine code and buffers lie changes the speed of some kernels."""
SECONDS_EACH: Final = 0.3


class LaterComparison(Frozen):
    """A record against the other finalists.

    Attributes:
        others: how many other schedules took part.
        ratios: in each comparison, the record's latency over that of the schedule that is the fastest by the
            median of these ratios; 1 if that is the record's own.
    """

    others: int
    ratios: tuple[float, ...]

    @property
    def regret(self) -> float:
        """The share of the record's latency that the fastest schedule saves; 0 if it is the record's own."""
        return max(0.0, 1 - 1 / statistics.median(self.ratios))

    @property
    def has_flipped(self) -> bool:
        """Whether one other schedule is faster in every comparison."""
        return min(self.ratios) > 1


def compare_later(home: Path, record_id: str) -> LaterComparison:
    """Compare the record with the fastest other trials of its search, in the store of ``home``.

    Raises:
        RuntimeError: a schedule of a verified record or of a complete trial does not run.
    """
    with LocalMachine(Settings(home=home)) as machine:
        store = machine.store
        record = store.records.get(LOCAL_TENANT, record_id)
        trials = store.samples.fastest(LOCAL_TENANT, record.exploration_id or "", OTHERS + 1)
        others = [trace for trace in (Trace(text=trial.trace) for trial in trials) if trace != record.trace][:OTHERS]
        machine.farm.open_task(_task(machine, record))
        return later_comparison([_latencies_s(machine, record, others, turn) for turn in range(COMPARISONS)])


def later_comparison(latencies_s: Sequence[Mapping[int, float]]) -> LaterComparison:
    """The result of comparisons with the latency of each schedule by its number; that of the record is 0."""
    # The host may be slower in one comparison than in another, so only ratios within one count.
    ratios = {number: tuple(each[0] / each[number] for each in latencies_s) for number in latencies_s[0]}
    fastest = max(ratios, key=lambda number: statistics.median(ratios[number]))
    return LaterComparison(others=len(ratios) - 1, ratios=ratios[fastest])


def _task(machine: LocalMachine, record: TuningRecord) -> MeasureTask:
    workload = machine.store.workloads.get(LOCAL_TENANT, record.key.workload_id)
    target = machine.store.targets.get(record.key.target_id)
    return MeasureTask(
        exploration_id=record.record_id,
        workload_id=workload.workload_id,
        module_json=workload.module_json,
        target=target.canonical,
        num_cores=target.num_cores,
        protocol_id=record.key.protocol_id,
        abi=record.key.abi,
    )


def _latencies_s(
    machine: LocalMachine, record: TuningRecord, others: Sequence[Trace], turn: int
) -> Mapping[int, float]:
    traces = [record.trace, *others]
    first = turn % len(traces)  # each comparison begins with another schedule
    order = [*range(first, len(traces)), *range(first)]
    ordered = ComparisonOrder(
        exploration_id=record.record_id, traces=tuple(traces[each] for each in order), seconds_each=SECONDS_EACH
    )
    latencies_s = {}
    for number, result in zip(order, machine.farm.compare(ordered).results, strict=True):
        if not isinstance(result, Timing):
            raise RuntimeError(f"schedule {number} of record {record.record_id} was not timed: {result}")
        latencies_s[number] = result.latency_s
    return latencies_s
