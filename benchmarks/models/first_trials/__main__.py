"""Records searches of functions of models, and reports how good their first trials are.

    python -m benchmarks.models.first_trials record
    python -m benchmarks.models.first_trials confirm
    python -m benchmarks.models.first_trials report

``record`` searches each function with 1,000 trials, and with 64 trials for each of four further seeds, and measures all
candidates on one thread; hours on a machine that nothing else uses. A finished function is not recorded again.
``confirm`` times the fastest of them again by turns, which takes half a minute a function.
``report`` compares the best of the first 16 and 64 trials of each run with the best of all, in speed. The trials are
those that the search proposed when nothing was known, in their order, and not those that it would choose from a table.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean

from tunefarm_search.tvm import loading

loading.load()  # before other modules import TVM, which would load torch

from benchmarks.models.first_trials.chosen_functions import CHOSEN  # noqa: E402
from benchmarks.models.first_trials.confirming import confirmed  # noqa: E402
from benchmarks.models.first_trials.recording import record  # noqa: E402
from benchmarks.models.first_trials.trial_table import FirstTrialsTable  # noqa: E402
from tunefarm_search.tvm.target import host_target  # noqa: E402

FIRST = (16, 64)
PRINT_S = 10.0
SUFFIX = ".json.gz"


def main() -> int:
    """Record or report."""
    options = _parse()
    if options.command == "record":
        names = options.functions or [chosen.name for chosen in CHOSEN]
        _record(names, options.tables, options.work, options.trials, options.seeds, options.seed_trials)
    tables = sorted(options.tables.glob(f"*{SUFFIX}"))
    wanted = options.functions or [path.name.removesuffix(SUFFIX) for path in tables]
    tables = [path for path in tables if path.name.removesuffix(SUFFIX) in wanted]
    if options.command == "confirm":
        _confirm(tables)
    return _report(tables)


def _record(names: Sequence[str], tables: Path, work: Path, trials: int, seeds: int, seed_trials: int) -> None:
    left = [name for name in names if not (tables / f"{name}{SUFFIX}").exists()]
    if unread := [name for name in left if not (work / f"{name}.json").exists()]:
        print("reading the models", flush=True)
        module = "benchmarks.models.first_trials.chosen_functions"
        subprocess.run([sys.executable, "-W", "ignore", "-m", module, str(work), *unread], check=True)
    planned = (trials, *[seed_trials] * seeds)
    started_s, finished = time.monotonic(), 0
    for number, name in enumerate(left):
        shown = _printer(f"{number + 1} of {len(left)}, {name}", started_s, finished, sum(planned), len(left) - number)
        table = record(name, (work / f"{name}.json").read_text(encoding="utf-8"), host_target(1), planned, shown)
        table.write(tables / f"{name}{SUFFIX}")
        finished += sum(len(run.trials) for run in table.runs)


def _confirm(paths: Sequence[Path]) -> None:
    for number, path in enumerate(paths):
        print(f"{number + 1} of {len(paths)}, {path.name.removesuffix(SUFFIX)}", flush=True)
        confirmed(FirstTrialsTable.read(path), FIRST).write(path)


def _printer(
    title: str, started_s: float, before: int, of_each: int, functions_left: int
) -> Callable[[int, float], None]:
    """Prints a line every few seconds: trials, rate, best so far and time left for all functions."""
    printed_s = time.monotonic()

    def show(trials: int, best_s: float) -> None:
        nonlocal printed_s
        now_s = time.monotonic()
        if now_s - printed_s < PRINT_S:
            return
        printed_s = now_s
        rate = (before + trials) / (now_s - started_s)
        left_s = (functions_left * of_each - trials) / rate
        done = f"{trials} of {of_each} trials, {rate:.2f}/s, best {best_s * 1e6:.1f} us"
        print(f"{title}: {done}, left {left_s / 60:.0f} min", flush=True)

    return show


def _report(paths: Sequence[Path]) -> int:
    if not paths:
        print("nothing to report: no function was recorded", file=sys.stderr)
        return 1
    shares: dict[int, list[float]] = {first: [] for first in FIRST}
    print(f"{'function':26} {'trials':>6} {'runs':>4} {'best us':>10} " + " ".join(f"{f'first {n}':>9}" for n in FIRST))
    for path in paths:
        table = FirstTrialsTable.read(path)
        row = {first: geometric_mean([table.share(n, first) for n in range(len(table.runs))]) for first in FIRST}
        for first, share in row.items():
            shares[first].append(share)
        figures = " ".join(f"{share:9.1%}" for share in row.values())
        print(f"{table.name:26} {table.trials:6} {len(table.runs):4} {table.best_s * 1e6:10.2f} {figures}")
    means = " ".join(f"{geometric_mean(values):9.1%}" for values in shares.values())
    print(f"{'geometric mean':26} {'':6} {'':4} {'':10} {means}")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "confirm", "report"))
    known = [chosen.name for chosen in CHOSEN]
    parser.add_argument("--functions", nargs="+", choices=known, help=f"all {len(known)} by default")
    parser.add_argument("--trials", type=int, default=1000, help="of the first seed")
    parser.add_argument("--seeds", type=int, default=4, help="further seeds")
    parser.add_argument("--seed-trials", type=int, default=max(FIRST), help="of each further seed")
    parser.add_argument("--tables", type=Path, default=Path("benchmarks/results/models/first_trials"))
    parser.add_argument("--work", type=Path, default=Path("bench-output/first-trials"), help="the functions")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
