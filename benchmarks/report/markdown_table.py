"""The comparison as a page of Markdown."""

from collections.abc import Sequence

from benchmarks.comparison.figures import STAGES, Figures, WorkloadFigures
from benchmarks.comparison.pairing import Pairing
from benchmarks.machine import Machine
from tunefarm_workers.timing.ratio_interval import Ratio


def markdown_page(result: Figures, pairings: Sequence[Pairing], machine: Machine) -> str:
    """The page: headline figures, one row per workload, seconds per stage, and the machine."""
    first = pairings[0]
    lines = [
        "# Comparison with TVM's own tuner",
        "",
        f"{first.trials} trials, {first.stock.cores} threads, seeds {', '.join(map(str, _seeds(pairings)))}. "
        "See [the README](../README.md) for the method.",
        "",
        f"- Time to stock's result: **{ratio_text(result.time_ratio)} less** (geometric mean, 95% interval).",
        f"- Kernels at equal trials: **{ratio_text(result.quality_ratio)} faster**; "
        f"wholly below 0.97x: {', '.join(result.slower_workloads) or 'none'}.",
        *_baseline_lines(result),
        "",
        *table(_RESULT_HEAD, [_result_row(row) for row in result.workloads]),
        "",
        _footnote(result, pairings),
        "## Seconds per trial",
        "",
        "Our stages are summed over concurrent processes, so their total can exceed the wall time.",
        "",
        *table(
            ("workload", "stock, wall", "ours, wall", *STAGES),
            [_stage_row(row) for row in result.workloads],
        ),
        "",
        "## Machine",
        "",
        machine_line(machine),
        "",
    ]
    return "\n".join(line for line in lines if line is not None)


def machine_line(machine: Machine) -> str:
    """Hardware and versions as a sentence."""
    return (
        f"{machine.processor}, {machine.logical_cores} logical cores, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{'virtual' if machine.hypervisor else 'bare metal'}, {machine.operating_system}, Python {machine.python}, "
        + ", ".join(f"{name} {number}" for name, number in machine.packages.items())
        + "."
    )


_RESULT_HEAD = (
    "workload", "stock wall", "stock kernel", "our wall", "our kernel", "time to stock's result",
    "kernel at equal trials", "failed trials, stock / ours", "asked again", "baseline wall, kernel",
    "baseline's time to stock's result", "ours against the baseline's kernel",
)  # fmt: skip


def _result_row(row: WorkloadFigures) -> tuple[str, ...]:
    again = "" if row.repeat_wall_s is None else f"{row.repeat_trials} trials, {row.repeat_wall_s:.1f} s"
    baseline = ""
    if row.baseline_wall_s is not None and row.baseline_latency_s is not None:
        baseline = f"{row.baseline_wall_s:.0f} s, {row.baseline_latency_s * 1e6:.1f} us"
    return (
        row.workload,
        f"{row.stock_wall_s:.0f} s",
        f"{row.stock_latency_s * 1e6:.1f} us",
        f"{row.our_wall_s:.1f} s",
        f"{row.our_latency_s * 1e6:.1f} us",
        ratio_text(row.time_ratio) + (f" †{row.not_reached}" if row.not_reached else ""),
        ratio_text(row.quality_ratio),
        f"{row.stock_failures:.0%} / {row.our_failures:.0%}",
        again,
        baseline,
        _baseline_time(row),
        "" if row.baseline_quality_ratio is None else ratio_text(row.baseline_quality_ratio),
    )


def _baseline_time(row: WorkloadFigures) -> str:
    if row.baseline_time_ratio is None:
        return ""
    missed = row.seeds - row.baseline_reached
    return ratio_text(row.baseline_time_ratio) + (f" ‡{missed}" if missed else "")


def _baseline_lines(result: Figures) -> list[str]:
    if result.baseline_time_ratio is None or result.baseline_quality_ratio is None:
        return []
    return [
        f"- The baseline: {ratio_text(result.baseline_time_ratio)} less time to stock's result at most; "
        f"ours makes **{ratio_text(result.baseline_quality_ratio)} faster** kernels than it at equal trials."
    ]


def _stage_row(row: WorkloadFigures) -> tuple[str, ...]:
    stages = (f"{row.our_stage_seconds_per_trial[stage]:.3f}" for stage in STAGES)
    return (row.workload, f"{row.stock_seconds_per_trial:.3f}", f"{row.our_seconds_per_trial:.3f}", *stages)


def _footnote(result: Figures, pairings: Sequence[Pairing]) -> str:
    notes = ""
    if any(row.not_reached for row in result.workloads):
        longest = max((pairing.longer or pairing.ours).trials for pairing in pairings if pairing.first_as_fast is None)
        notes += (
            f"†n: in n seeds stock's result was not reached within {longest} trials; "
            "the ratio is that of the whole run.\n"
        )
    if any(row.baseline_time_ratio is not None and row.baseline_reached < row.seeds for row in result.workloads):
        notes += "‡n: in n seeds the baseline found no kernel as fast; the ratio is that of its whole run, a bound.\n"
    return notes


def _seeds(pairings: Sequence[Pairing]) -> list[int]:
    return sorted({pairing.seed for pairing in pairings})


def ratio_text(ratio: Ratio) -> str:
    """A ratio with its interval."""
    return f"{ratio.mean:.2f}x ({ratio.low:.2f} - {ratio.high:.2f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
