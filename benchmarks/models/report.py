"""The comparison of whole models as a page of Markdown."""

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.machine import Machine
from benchmarks.models.model_result import ModelResult
from benchmarks.models.rivals import OURS, RIVALS, UNSCHEDULED, ZERO_TRIALS
from benchmarks.report.markdown_table import machine_line, ratio_text, table
from tunefarm_workers.timing.ratio_interval import Ratio


def markdown_page(results: Sequence[ModelResult], machine: Machine) -> str:
    """The page: latencies, ratios to the best rival, what compiling took, failures, and the machine."""
    names = [name for name in RIVALS if any(result.rival(name) for result in results)]
    ours = [name for name in OURS if name in names]
    lines = [
        "# Whole models",
        "",
        f"Batch 1, {results[0].threads} threads each, milliseconds per call: median and 95% interval. "
        "See [the README](../../README.md) for the method.",
        "",
        *table(("model", *names), [_latency_row(result, names) for result in results]),
        "",
        "*once*: too slow for rounds; a single call.",
        "",
        "## Against the best of torch, onnxruntime and OpenVINO",
        "",
        *table(("model", "best", *ours), [_ratio_row(result, ours) for result in results]),
        *_mean_lines(results, ours),
        "",
        "## Without a trial",
        "",
        *table(
            ("model", "functions", "kinds", "seconds to compile", "stages", "against unscheduled TVM"),
            [_compile_row(result) for result in results],
        ),
        "",
        *_failures(results),
        "## Machine",
        "",
        machine_line(machine),
        "",
    ]
    return "\n".join(lines)


def _latency_row(result: ModelResult, names: Sequence[str]) -> tuple[str, ...]:
    return (result.model, *(_latency(result, name) for name in names))


def _latency(result: ModelResult, name: str) -> str:
    seconds, rival = result.seconds(name), result.rival(name)
    if seconds is None or rival is None or rival.ready is None:
        return "" if rival is None else "failed"
    wrong = "" if result.is_equal(name) else f" **error {rival.ready.error:.0e}**"
    if rival.ready.once:
        return f"{seconds.mean * 1e3:.0f} *once*{wrong}"
    return f"{seconds.mean * 1e3:.2f} ({seconds.low * 1e3:.2f} - {seconds.high * 1e3:.2f}){wrong}"


def _ratio_row(result: ModelResult, ours: Sequence[str]) -> tuple[str, ...]:
    best = result.best_other()
    if best is None:
        return (result.model, "none", *("" for _ in ours))
    return (result.model, best, *(_text(result.speedup(name, best)) for name in ours))


def _text(ratio: Ratio | None) -> str:
    return "" if ratio is None else ratio_text(ratio)


def _mean_lines(results: Sequence[ModelResult], ours: Sequence[str]) -> list[str]:
    lines = []
    for name in ours:
        ratios = [result.speedup(name, best) for result in results if (best := result.best_other())]
        means = [ratio.mean for ratio in ratios if ratio is not None]
        if means:
            lines.append(f"- {name}: geometric mean **{geometric_mean(means):.2f}x** over {len(means)} models.")
    return ["", *lines] if lines else []


def _compile_row(result: ModelResult) -> tuple[str, ...]:
    compiled = result.compiled.get(ZERO_TRIALS)
    if compiled is None:
        return (result.model, "", "", "", "", "")
    return (
        result.model,
        str(compiled.functions),
        ", ".join(f"{count} {kind}" for kind, count in compiled.kinds.items()),
        f"{compiled.wall_s:.1f}",
        ", ".join(f"{name} {took_s:.1f}" for name, took_s in compiled.stages.items()),
        _text(result.speedup(ZERO_TRIALS, UNSCHEDULED)),
    )


def _failures(results: Sequence[ModelResult]) -> list[str]:
    failed = [
        f"- {result.model}, {rival.rival}: {' '.join(rival.failure.split())[-300:]}"
        for result in results
        for rival in result.rivals
        if rival.failure
    ]
    return ["## Failures", "", *failed, ""] if failed else []
