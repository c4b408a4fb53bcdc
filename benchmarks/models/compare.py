"""Compares tunefarm's models with torch, onnxruntime, OpenVINO and unscheduled TVM. See ``--help``."""

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy

from benchmarks.comparison.raw_results import OtherMachine, RawResults
from benchmarks.machine import this_machine
from benchmarks.models.compiling import TuningBudget, compile_ours
from benchmarks.models.model_files import FORMATS, definition_digest, model_file
from benchmarks.models.model_result import ModelResult
from benchmarks.models.report import markdown_page
from benchmarks.models.rival_process import INPUTS, ProcessOrder, expected_path
from benchmarks.models.rival_turns import RivalResult, time_by_turns
from benchmarks.models.rivals import OURS, RIVALS
from benchmarks.models.zoo import TINY_ZOO, ZOO, ZooModel, as_tensors

PACKAGES = ("torch", "onnxruntime", "openvino")


@dataclass(frozen=True)
class RivalsPlan:
    """The options of a comparison. ``work`` holds what can be made again: files, artifacts and stores."""

    models: tuple[ZooModel, ...]
    tiny: bool
    rivals: tuple[str, ...]
    rounds: int
    threads: int
    tune_s: int
    artifact_format: str
    work: Path


def main() -> int:
    """Measure every model without a result, then write the page."""
    arguments = _parse()
    known = TINY_ZOO if arguments.tiny else ZOO
    plan = RivalsPlan(
        models=tuple(known[name] for name in arguments.models or known),
        tiny=arguments.tiny,
        rivals=tuple(arguments.rivals or RIVALS),
        rounds=arguments.rounds,
        threads=arguments.threads,
        tune_s=arguments.tuned_seconds,
        artifact_format=arguments.format,
        work=arguments.work / f"{'tiny' if arguments.tiny else 'full'}-{definition_digest()}",
    )
    try:
        results = RawResults(arguments.output, this_machine(*PACKAGES))
    except OtherMachine as error:
        print(error, file=sys.stderr)
        return 2
    if not arguments.only_report:
        for model in plan.models:
            print(model.name, flush=True)
            result = results.once(_name(plan, model), ModelResult, partial(measure, plan, model))
            _print_result(result)
    found = [
        results.once(_name(plan, model), ModelResult, _absent) for model in plan.models if _has(plan, model, results)
    ]
    if not found:
        print("nothing to report: no model was measured", file=sys.stderr)
        return 1
    page = arguments.output / "models.md"
    page.write_text(markdown_page(found, this_machine(*PACKAGES)), encoding="utf-8")
    print(page)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(ZOO), help="all twelve by default")
    parser.add_argument("--rivals", nargs="+", choices=list(RIVALS), help="all by default")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=2, help="of each rival")
    parser.add_argument("--tuned-seconds", type=int, default=900, help="of search for each model")
    parser.add_argument("--format", choices=FORMATS, default="pt2", help="of the file that tunefarm reads")
    parser.add_argument("--tiny", action="store_true", help="the tiny models: tries the commands, shows nothing")
    parser.add_argument("--work", type=Path, default=Path("bench-output/models"))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/models"))
    parser.add_argument("--only-report", action="store_true", help="run nothing; report existing results")
    return parser.parse_args()


def _name(plan: RivalsPlan, model: ZooModel) -> str:
    size = "tiny" if plan.tiny else "full"
    return f"raw/{size}-{plan.threads}-threads/{model.name}/{'+'.join(plan.rivals)}"


def _has(plan: RivalsPlan, model: ZooModel, results: RawResults) -> bool:
    return (results.folder / f"{_name(plan, model)}.json").exists()


def _absent() -> ModelResult:
    raise AssertionError("the result was there")


def measure(plan: RivalsPlan, model: ZooModel) -> ModelResult:
    """Write the model's files and torch's outputs, compile it, and time all rivals by turns."""
    for file_format in FORMATS:
        model_file(model, file_format, plan.work)
    write_expected(model, plan.work)
    compiled, failures = compile_ours(
        plan.rivals,
        plan.work / f"{model.name}.{plan.artifact_format}",
        lambda rival: _artifact(plan, model, rival),
        plan.work / "stores" / model.name,
        plan.threads,
        TuningBudget(plan.tune_s),
    )
    orders = [_order(plan, model, rival) for rival in plan.rivals if rival not in failures]
    timed = {result.rival: result for result in time_by_turns(orders, plan.rounds)}
    failed = {
        rival: RivalResult(rival=rival, ready=None, samples=(), failure=reason) for rival, reason in failures.items()
    }
    return ModelResult(
        model=model.name,
        threads=plan.threads,
        tolerance=model.tolerance,
        rivals=tuple({**timed, **failed}[rival] for rival in plan.rivals),
        compiled=compiled,
    )


def _order(plan: RivalsPlan, model: ZooModel, rival: str) -> ProcessOrder:
    return ProcessOrder(
        model=model.name,
        tiny=plan.tiny,
        rival=rival,
        files=str(plan.work),
        artifact=str(_artifact(plan, model, rival)) if rival in OURS else None,
        threads=plan.threads,
    )


def _artifact(plan: RivalsPlan, model: ZooModel, rival: str) -> Path:
    return plan.work / "compiled" / f"{model.name}-{rival}"


def write_expected(model: ZooModel, folder: Path) -> None:
    """Write the outputs of torch on the inputs that all rivals are compared with."""
    import torch

    module, _ = model.build()
    for number in range(INPUTS):
        with torch.no_grad():
            outputs = as_tensors(module(*model.inputs(number)))
        numpy.savez(expected_path(folder, model.name, number), *(output.numpy() for output in outputs))


def _print_result(result: ModelResult) -> None:
    for rival in result.rivals:
        if rival.ready is None:
            print(f"  {rival.rival}: failed: {rival.failure}", flush=True)
            continue
        seconds = result.seconds(rival.rival)
        print(
            f"  {rival.rival}: {'no samples' if seconds is None else f'{seconds.mean * 1e3:.3f} ms'}, error "
            f"{rival.ready.error:.1e} of {result.tolerance:.0e}",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
