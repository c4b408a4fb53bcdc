"""Compares a record's latency with that of its artifact in fresh processes.

``python -m benchmarks.trust --workloads te:GMM builtin:dense:1x4096x4096 --processes 20`` tunes each workload with an
empty store, writes its artifact, and times it in fresh processes as the record's protocol does: TVM's runtime and its
time evaluator, the target's threads on separate, close cores, and the fastest of six rounds. A record is trusted if the
median of the processes is within the tolerance of it, or inside its interval if that is at most 10% wide. The median of
a preceding round, in whatever state the host is, is reported as well. When all workloads are tuned, each record's
schedule is timed beside the other finalists of its search: whether the winner has flipped since, and the regret. A
table goes to standard error, JSON to standard output. The exit status is 1 if a record is not trusted.
"""

import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.child_process import run_command
from benchmarks.later_comparison import LaterComparison, compare_later
from benchmarks.machine import Machine, this_machine
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.record import BUSY

WORKLOADS: Final = (
    "te:GMM",
    "te:C1D",
    "te:C2D",
    "te:DEP",
    "te:SFM",
    "te:T2D",
    "te:NRM",
    "te:CBR",
    "builtin:matmul:32x32x32",
    "builtin:dense:1x4096x4096",
    "builtin:matmul:768x768x768",
    "builtin:matmul:1024x1024x1024",
    "builtin:dense:128x4096x4096",
)
"""TVM's own suite, a function of a few microseconds, one with 64 MiB of weights, which fits no cache, and three of 1 to
100 ms, which a process calls only a few times."""

TOLERANCE: Final = 0.05
MAX_INTERVAL_WIDTH: Final = 0.10
SAMPLE_S: Final = 0.01
SAMPLES: Final = 9
TUNING_TIMEOUT_S: Final = 3600.0
PROCESS_TIMEOUT_S: Final = 120.0
ARTIFACT_RUNS: Final = 3
HOME: Final = "home"


class Trust(Frozen):
    """A record and its timings in fresh processes. Latencies are in seconds; ``ratio`` is theirs over the record's."""

    workload: str
    trials: int
    record_latency_s: float
    interval_s: tuple[float, float] | None
    process_latencies_s: tuple[float, ...]
    first_round_median_s: float
    artifact_run_median_s: float
    fresh_median_s: float
    ratio: float
    within_interval: bool
    trusted: bool
    record_was_busy: bool
    later: LaterComparison | None = None


class FreshTiming(Frozen):
    """Timing of an artifact in a process of its own.

    Attributes:
        rounds_s: seconds per call in each round. In the first the host may be in any state.
        foreign_load: share of the time for which other processes kept a thread of it from a core.
    """

    rounds_s: tuple[float, ...]
    foreign_load: float

    @property
    def latency_s(self) -> float:
        """The least of all rounds."""
        return min(self.rounds_s)

    @property
    def was_busy(self) -> bool:
        """Whether a record with this load would be doubtful."""
        return self.foreign_load >= BUSY


class TrustReport(Frozen):
    """All records, and the machine."""

    machine: Machine
    processes: int
    tolerance: float
    workloads: tuple[Trust, ...]

    @property
    def flips_text(self) -> str:
        """How many winners have flipped, and the regret of all."""
        compared = [row.later for row in self.workloads if row.later is not None]
        flips = sum(each.has_flipped for each in compared)
        mean = statistics.fmean(each.regret for each in compared)
        most = max(each.regret for each in compared)
        return (
            f"{flips} of {len(compared)} winners are slower than another finalist in every later comparison; "
            f"regret: {mean:.1%} on average, {most:.1%} at most"
        )


def measure_trust(workload: str, *, trials: int, processes: int, tolerance: float, folder: Path) -> tuple[Trust, str]:
    """Tune ``workload`` with a store in ``folder`` and time its artifact in ``processes`` fresh processes.

    Returns:
        The verdict, and the id of the record in the store.

    Raises:
        CommandFailed: tuning or a process fails.
    """
    artifact, home = folder / "artifact", folder / HOME
    arguments = ["tune", workload, "--trials", str(trials), "--output", str(artifact)]
    task = _run_tunefarm(arguments, home, TUNING_TIMEOUT_S)["tasks"][0]
    rounds_s = [time_in_a_fresh_process(artifact).rounds_s for _ in range(processes)]
    runs = [_run_tunefarm(["artifact", "run", str(artifact)], home, PROCESS_TIMEOUT_S) for _ in range(ARTIFACT_RUNS)]
    return verdict_on(workload, task, rounds_s, [run["latency_s"] for run in runs], tolerance), task["record_id"]


def _run_tunefarm(arguments: Sequence[str], home: Path, timeout_s: float) -> dict[str, Any]:
    command = str(Path(sys.executable).with_name("tunefarm"))
    program = [command] if Path(command).exists() else [sys.executable, "-m", "tunefarm.cli.command_line"]
    cores = len(os.sched_getaffinity(0))
    environment = {"TUNEFARM_HOME": str(home)}
    result: dict[str, Any] = run_command(
        [*program, *arguments, "--json"], cores=cores, environment=environment, timeout_s=timeout_s
    ).last_json()
    return result


def verdict_on(
    workload: str,
    task: dict[str, Any],
    rounds_s: Sequence[Sequence[float]],
    artifact_runs_s: Sequence[float],
    tolerance: float,
) -> Trust:
    """Judge a summary's ``task`` by the rounds of each process, whose first may be in any state of the host."""
    interval_s = task["interval_s"]
    latencies_s = tuple(min(rounds[1:]) for rounds in rounds_s)
    fresh_s = statistics.median(latencies_s)
    ratio = fresh_s / task["best_latency_s"]
    within = interval_s is not None and interval_s[0] <= fresh_s <= interval_s[1]
    narrow = interval_s is not None and interval_s[1] / interval_s[0] - 1 <= MAX_INTERVAL_WIDTH
    return Trust(
        workload=workload,
        trials=task["trials"],
        record_latency_s=task["best_latency_s"],
        interval_s=None if interval_s is None else tuple(interval_s),
        process_latencies_s=latencies_s,
        first_round_median_s=statistics.median(rounds[0] for rounds in rounds_s),
        artifact_run_median_s=statistics.median(artifact_runs_s),
        fresh_median_s=fresh_s,
        ratio=ratio,
        within_interval=within,
        record_was_busy=task["was_busy"],
        trusted=1 - tolerance <= ratio <= 1 + tolerance or (within and narrow),
    )


def time_in_a_fresh_process(artifact: Path) -> FreshTiming:
    """Time ``artifact`` in a new process.

    Raises:
        CommandFailed: the artifact does not load or run.
    """
    manifest = json.loads((artifact / "manifest.json").read_text(encoding="utf-8"))
    finished = run_command(
        [sys.executable, "-m", "benchmarks.trust", "--time", str(artifact)],
        cores=manifest["num_cores"],
        environment={"TVM_USE_RUNTIME_LIB": "1", "OPENBLAS_NUM_THREADS": "1"},
        timeout_s=PROCESS_TIMEOUT_S,
    )
    return FreshTiming.model_validate_json(finished.standard_output)


def time_artifact(folder: Path) -> FreshTiming:
    """Time the artifact in ``folder`` in this process; a round is a median of samples. Loads TVM's runtime only."""
    import numpy
    import tvm

    from tunefarm_workers.artifact.loaded_library import ROUNDS
    from tunefarm_workers.artifact.runtime_paths import runtime_paths
    from tunefarm_workers.threads.core_to_core_latency import CoreToCoreLatency
    from tunefarm_workers.threads.shared_cache_wait import SharedCacheWait
    from tunefarm_workers.threads.smt_detection import sleep_burst
    from tunefarm_workers.threads.thread_cores import cores_for
    from tunefarm_workers.threads.thread_placement import place_threads
    from tunefarm_workers.timing.processor_clock import queueing_time_s

    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    library: Any = tvm.runtime.load_module(str(folder / manifest["library_name"]))
    shared_cache_wait = SharedCacheWait(cores_for(manifest["num_cores"]))
    place_threads(manifest["num_cores"])
    generator = numpy.random.default_rng(0)
    arguments = [
        tvm.runtime.tensor(generator.standard_normal(argument["shape"]).astype(argument["dtype"]))
        for argument in manifest["arguments"]
    ]

    def timed(calls: int, samples: int) -> Any:
        evaluator = library.time_evaluator(manifest["entry"], tvm.cpu(0), number=calls, repeat=samples)
        return evaluator(*arguments)

    def timed_round() -> float:
        return float(statistics.median(timed(max(1, round(SAMPLE_S / once_s)), SAMPLES).results))

    begun_s, queued_s = time.monotonic(), queueing_time_s(os.getpid())
    once_s = float(timed(3, 1).mean)
    rounds_s = [timed_round()]
    shared_cache_wait.wait(once_s, CoreToCoreLatency(ctypes.CDLL(runtime_paths()[1])).is_near)
    for turn in range(ROUNDS):
        if turn:
            sleep_burst()
        rounds_s.append(timed_round())
    queued_s = queueing_time_s(os.getpid()) - queued_s
    return FreshTiming(rounds_s=tuple(rounds_s), foreign_load=queued_s / (time.monotonic() - begun_s))


def table(report: TrustReport) -> str:
    """The report as lines of Markdown."""
    lines = [
        "| workload | record | interval | fresh processes | first rounds | artifact run | ratio | verdict | regret |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report.workloads:
        interval = "-" if row.interval_s is None else " - ".join(f"{each * 1e6:.2f}" for each in row.interval_s)
        verdict = "trusted" if row.trusted else f"off by more than {report.tolerance:.0%}"
        if row.record_was_busy:
            verdict += ", taken on a busy host"
        lines.append(
            f"| {row.workload} | {row.record_latency_s * 1e6:.2f} us | {interval} us | "
            f"{row.fresh_median_s * 1e6:.2f} us | {row.first_round_median_s * 1e6:.2f} us | "
            f"{row.artifact_run_median_s * 1e6:.2f} us | {row.ratio:.3f} | {verdict} | {_regret_text(row.later)} |"
        )
    return "\n".join([*lines, "", report.flips_text])


def _regret_text(later: LaterComparison | None) -> str:
    if later is None:
        return "-"
    return f"{later.regret:.1%}{', flipped' if later.has_flipped else ''}"


def _rows(workloads: Sequence[str], trials: int, processes: int, tolerance: float, folder: Path) -> list[Trust]:
    """Tune and time all workloads, then compare each record with the other finalists."""
    found = []
    for number, workload in enumerate(workloads):
        own = folder / str(number)
        own.mkdir()
        row, record_id = measure_trust(workload, trials=trials, processes=processes, tolerance=tolerance, folder=own)
        found.append((row, record_id, own / HOME))
        print(f"{workload}: {row.ratio:.3f}", file=sys.stderr, flush=True)
    rows = []
    for row, record_id, home in found:
        rows.append(row.model_copy(update={"later": compare_later(home, record_id)}))
        print(f"{row.workload}: regret {_regret_text(rows[-1].later)}", file=sys.stderr, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), help="arguments of tunefarm tune")
    parser.add_argument("--processes", type=int, default=20, help="fresh processes for each artifact")
    parser.add_argument("--trials", type=int, default=64, help="trials for each workload")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="largest relative difference")
    parser.add_argument("--time", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.time is not None:
        print(time_artifact(chosen.time).model_dump_json())
        return 0
    with tempfile.TemporaryDirectory(prefix="tunefarm-trust-") as name:
        rows = _rows(chosen.workloads, chosen.trials, chosen.processes, chosen.tolerance, Path(name))
    report = TrustReport(
        machine=this_machine(), processes=chosen.processes, tolerance=chosen.tolerance, workloads=tuple(rows)
    )
    print(table(report), file=sys.stderr)
    print(report.model_dump_json())
    return 0 if all(row.trusted for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
