"""What single mechanisms of the search gain on functions of models.

    python -m benchmarks.models.first_trials.mechanism_gains --functions conv-3x3-256 depthwise-3x3 --seeds 0 1 2

Searches each function from its committed table with and without each mechanism, with equal seeds and an empty store,
and compares the best latencies after 16, 32 and 64 trials. A schedule is measured once, so that all searches agree on
its latency. Times are processor time of one thread, so that a busy machine does little harm. Some minutes a function;
the table in Markdown, with the machine, is written to ``--output``.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Final

from tunefarm_search.tvm import loading
from tunefarm_search.tvm.serialization import load_json

loading.load()  # before other modules import TVM, which would load torch

from benchmarks.machine import this_machine  # noqa: E402
from benchmarks.models.first_trials.recording import MeasuringFarm, Timed  # noqa: E402
from benchmarks.models.first_trials.trial_table import FirstTrialsTable  # noqa: E402
from tunefarm_schemas.tuning.job import Effort  # noqa: E402
from tunefarm_schemas.tuning.trace import Space  # noqa: E402
from tunefarm_search.loop.loop import SearchLoop  # noqa: E402
from tunefarm_search.loop.task_search import SearchTask  # noqa: E402
from tunefarm_search.space.space import search_space  # noqa: E402
from tunefarm_search.strategy.evolutionary import DEFAULTS, EvolutionConfig  # noqa: E402
from tunefarm_search.tvm.target import host_target  # noqa: E402

TABLES: Final = Path("benchmarks/results/models/first_trials")
SUFFIX: Final = ".json.gz"
AFTER: Final = (16, 32, 64)
WITHOUT: Final[Mapping[str, EvolutionConfig]] = {
    "coordinate descent": replace(DEFAULTS, neighbour_share=0.0),
    "spread of the ensemble": replace(DEFAULTS, spread_weight=0.0),
    "model and evolution": replace(
        DEFAULTS, neighbour_share=0.25, random_share=0.75, initial_random_share=0.75, plateau_random_share=0.75
    ),
}
"""Constants of the search that leave out one mechanism."""


@dataclass(frozen=True)
class MechanismGain:
    """How many times faster the best is with a mechanism than without, after each number of trials of ``AFTER``."""

    function: str
    mechanism: str
    seed: int
    gains: tuple[float, ...]


def gains_of(name: str, module_json: str, seeds: Sequence[int], trials: int) -> list[MechanismGain]:
    """Search one function with all constants, and without each mechanism."""
    known: dict[str, Timed] = {}
    found = []
    for seed in seeds:
        whole = _best_after(module_json, seed, trials, known, DEFAULTS)
        for mechanism, config in WITHOUT.items():
            without = _best_after(module_json, seed, trials, known, config)
            gains = tuple(other / best for best, other in zip(whole, without, strict=True))
            found.append(MechanismGain(name, mechanism, seed, gains))
            shown = ", ".join(f"{gain:.3f}" for gain in gains)
            print(f"{name}, seed {seed}, {mechanism}: {shown}", flush=True)
    return found


def _best_after(
    module_json: str, seed: int, trials: int, known: dict[str, Timed], config: EvolutionConfig
) -> list[float]:
    target = host_target(1)
    space = search_space(load_json(module_json), target, "stable", Space())
    farm = MeasuringFarm(space, target, known, lambda *_: None, clock=time.thread_time)
    task = SearchTask("own", module_json, target, evolution=config, of_model=True)
    SearchLoop([task], farm, farm, Effort(trials=trials), seed=seed).run()
    latencies_s = [float("inf") if timed[0] is None else timed[0] for _, timed in farm.measured]
    return [min(latencies_s[:count]) for count in AFTER if count <= trials]


def table(gains: Sequence[MechanismGain], trials: int) -> str:
    """The geometric mean of each function and mechanism, after all trials, and of all functions after fewer."""
    after = [count for count in AFTER if count <= trials]
    functions = list(dict.fromkeys(each.function for each in gains))
    lines = [f"| function, after {after[-1]} trials | {' | '.join(WITHOUT)} |", "| --- |" + " --- |" * len(WITHOUT)]
    for name in functions:
        means = [_mean(gains, mechanism, -1, name) for mechanism in WITHOUT]
        lines.append(f"| {name} | {' | '.join(means)} |")
    for number, count in enumerate(after):
        means = [_mean(gains, mechanism, number) for mechanism in WITHOUT]
        lines.append(f"| all, after {count} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def _mean(gains: Sequence[MechanismGain], mechanism: str, number: int, function: str | None = None) -> str:
    chosen = [each.gains[number] for each in gains if each.mechanism == mechanism and function in (None, each.function)]
    spread = f" ({min(chosen):.2f} - {max(chosen):.2f})"
    return f"{geometric_mean(chosen):.3f}{spread}"


def main() -> int:
    """Compare, and write the table."""
    options = _parse()
    gains: list[MechanismGain] = []
    started_s = time.monotonic()
    for number, name in enumerate(options.functions, 1):
        module_json = FirstTrialsTable.read(TABLES / f"{name}{SUFFIX}").module_json
        gains += gains_of(name, module_json, options.seeds, options.trials)
        left_s = (time.monotonic() - started_s) / number * (len(options.functions) - number)
        print(f"{number} of {len(options.functions)} functions, left {left_s / 60:.0f} min", flush=True)
    machine = this_machine()
    seeds = ", ".join(map(str, options.seeds))
    title = f"{machine.processor}, {machine.physical_cores} cores; seeds {seeds}; geometric mean (least - most)\n\n"
    text = title + table(gains, options.trials)
    sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(path.name.removesuffix(SUFFIX) for path in TABLES.glob(f"*{SUFFIX}"))
    parser.add_argument("--functions", nargs="+", choices=known, default=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--trials", type=int, default=max(AFTER))
    parser.add_argument("--output", type=Path, help="file for the table")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
