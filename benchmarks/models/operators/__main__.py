"""Times single operators by turns: ours without a trial and tuned, torch, onnxruntime and OpenVINO. See ``--help``.

Each operator is a model of one layer with the same weights and inputs for all. A finished operator is not measured
again. The page has all results of the folder; ``--only-report`` writes it without measuring.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.comparison.raw_results import OtherMachine, RawResults
from benchmarks.machine import Machine, this_machine
from benchmarks.models.compare import PACKAGES, write_expected
from benchmarks.models.compiling import TuningBudget, compile_ours
from benchmarks.models.model_files import FORMATS, model_file
from benchmarks.models.model_result import ModelResult
from benchmarks.models.operators.operator_cases import GROUPS, OPERATORS
from benchmarks.models.operators.operator_page import FinishedRace, operators_page, time_text
from benchmarks.models.rival_process import ProcessOrder
from benchmarks.models.rival_turns import RivalResult, time_by_turns
from benchmarks.models.rivals import OURS, RIVALS, TUNED, ZERO_TRIALS

DEFAULT_RIVALS = (ZERO_TRIALS, TUNED, "torch-eager", "onnxruntime", "openvino")
TUNE_TIMEOUT_S = 24 * 3600


@dataclass(frozen=True)
class Race:
    """The options of a race. ``work`` holds what can be made again: files, compiled operators and stores."""

    rivals: tuple[str, ...]
    rounds: int
    processes: int
    trials: int
    work: Path

    def name(self, operator: str, threads: int) -> str:
        """The name of the raw result."""
        return f"raw/{threads}-threads-{self.trials}-trials/{operator}/{'+'.join(self.rivals)}"


def main() -> int:
    """Measure every operator without a result, then write the page."""
    options = _parse()
    if not options.only_report:
        race = Race(tuple(options.rivals), options.rounds, options.processes, options.trials, options.work)
        names = options.operators or [model.name for group in options.groups for model in GROUPS[group]]
        cases = [(name, threads) for threads in options.threads for name in names]
        try:
            _measure_missing(race, cases, RawResults(options.output, this_machine(*PACKAGES)))
        except OtherMachine as error:
            print(error, file=sys.stderr)
            return 2
    races = _finished(options.output)
    if not races:
        print("nothing to report: no operator was measured", file=sys.stderr)
        return 1
    machine = Machine.model_validate_json((options.output / "machine.json").read_text(encoding="utf-8"))
    page = options.output / "operators.md"
    page.write_text(operators_page(races, machine), encoding="utf-8")
    print(page)
    return 0


def _finished(folder: Path) -> list[FinishedRace]:
    """All results of a folder, by trials and rivals, in the order of the operators."""
    order = list(OPERATORS)
    found: dict[tuple[str, str], list[ModelResult]] = {}
    for path in sorted(folder.glob("raw/*/*/*.json")):
        result = ModelResult.model_validate_json(path.read_text(encoding="utf-8"))
        found.setdefault((path.parent.parent.name, path.stem), []).append(result)
    return [
        FinishedRace(int(conditions.split("-")[2]), tuple(sorted(results, key=lambda one: order.index(one.model))))
        for (conditions, _), results in sorted(found.items())
    ]


def _measure_missing(race: Race, cases: list[tuple[str, int]], results: RawResults) -> None:
    left = [case for case in cases if not (results.folder / f"{race.name(*case)}.json").exists()]
    print(f"{len(cases)} operators, {len(cases) - len(left)} of them measured before", flush=True)
    started_s = time.monotonic()
    for number, (name, threads) in enumerate(left):
        each_s = (time.monotonic() - started_s) / number if number else 0.0
        rest = f", left {each_s * (len(left) - number) / 60:.0f} min" if number else ""
        print(f"{number + 1} of {len(left)}: {name}, {threads} threads{rest}", flush=True)
        result = results.once(race.name(name, threads), ModelResult, partial(measure, race, name, threads))
        for rival in result.rivals:
            print(f"  {rival.rival:14} {rival.failure or time_text(result, rival.rival)}", flush=True)


def measure(race: Race, name: str, threads: int) -> ModelResult:
    """Write the operator's files and torch's outputs, compile and tune it, and time all rivals by turns."""
    operator = OPERATORS[name]
    for file_format in FORMATS:
        model_file(operator, file_format, race.work)
    write_expected(operator, race.work)
    compiled, failures = compile_ours(
        race.rivals,
        race.work / f"{name}.pt2",
        lambda rival: _artifact(race, name, threads, rival),
        race.work / "stores" / f"{race.trials}-trials" / name,
        threads,
        TuningBudget(TUNE_TIMEOUT_S, race.trials),
    )
    orders = [
        ProcessOrder(
            model=name,
            tiny=False,
            rival=rival,
            files=str(race.work),
            artifact=str(_artifact(race, name, threads, rival)) if rival in OURS else None,
            threads=threads,
        )
        for rival in race.rivals
        if rival not in failures
    ]
    timed = {result.rival: result for result in time_by_turns(orders, race.rounds, race.processes)}
    failed = {rival: RivalResult(rival=rival, ready=None, samples=(), failure=text) for rival, text in failures.items()}
    return ModelResult(
        model=name,
        threads=threads,
        tolerance=operator.tolerance,
        rivals=tuple({**timed, **failed}[rival] for rival in race.rivals),
        compiled=compiled,
    )


def _artifact(race: Race, name: str, threads: int, rival: str) -> Path:
    return race.work / "compiled" / f"{name}-{threads}-threads-{rival}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="all by default")
    parser.add_argument("--operators", nargs="+", choices=list(OPERATORS), help="instead of groups")
    parser.add_argument("--rivals", nargs="+", choices=list(RIVALS), default=list(DEFAULT_RIVALS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="of each rival")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--processes", type=int, default=3, help="of each rival, which share the rounds")
    parser.add_argument("--trials", type=int, default=500, help="for an operator and a number of threads")
    parser.add_argument("--work", type=Path, default=Path("bench-output/operators"))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/models/operators"))
    parser.add_argument("--only-report", action="store_true", help="run nothing; report existing results")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
