"""The race of operators as a page of Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from benchmarks.machine import Machine
from benchmarks.models.model_result import ModelResult
from benchmarks.models.operators.operator_cases import GROUPS
from benchmarks.models.rivals import OURS, RIVALS, TUNED_RIVALS
from benchmarks.report.markdown_table import machine_line, ratio_text, table


@dataclass(frozen=True)
class FinishedRace:
    """Results of several operators with the same threads and rivals. ``trials`` is for those that were tuned."""

    trials: int
    results: tuple[ModelResult, ...]


def operators_page(races: Sequence[FinishedRace], machine: Machine) -> str:
    """For each race: times, ratios to the best rival, geometric means; then failures and the machine."""
    lines = [
        "# Single operators",
        "",
        "Microseconds per call: the least of all rounds, then the median and its 95% interval. "
        "See [the README](../../../README.md) for the method.",
        "",
    ]
    for race in races:
        lines += _race_lines(race)
    failed = [
        f"- {result.model}, {result.threads} threads, {rival.rival}: {' '.join(rival.failure.split())[-300:]}"
        for race in races
        for result in race.results
        for rival in result.rivals
        if rival.failure
    ]
    lines += ["## Failures", "", *failed, ""] if failed else []
    return "\n".join([*lines, "## Machine", "", machine_line(machine), ""])


def _race_lines(race: FinishedRace) -> list[str]:
    results, threads = race.results, race.results[0].threads
    names = [name for name in RIVALS if any(result.rival(name) for result in results)]
    ours = [name for name in OURS if name in names]
    tuned = f"{race.trials} trials" if TUNED_RIVALS.intersection(ours) else "without tuning"
    return [
        f"## {threads} thread{'s' if threads > 1 else ''}, {tuned}",
        "",
        *table(("operator", *names), [(one.model, *(time_text(one, name) for name in names)) for one in results]),
        "",
        "How many times faster than the fastest rival with equal results:",
        "",
        *table(("operator", "rival", *ours), [_ratio_row(one, ours) for one in results]),
        "",
        *(line for name in ours for line in _mean_lines(results, name)),
        "",
    ]


def time_text(result: ModelResult, name: str) -> str:
    """Least time, median and interval of one rival, in microseconds."""
    rival, seconds = result.rival(name), result.seconds(name)
    if rival is None or rival.ready is None or seconds is None:
        return "" if rival is None else "failed"
    wrong = "" if result.is_equal(name) else f" **error {rival.ready.error:.0e}**"
    median, low, high = (each * 1e6 for each in (seconds.mean, seconds.low, seconds.high))
    return f"{min(rival.seconds) * 1e6:.1f}; {median:.1f} ({low:.1f} - {high:.1f}){wrong}"


def _ratio_row(result: ModelResult, ours: Sequence[str]) -> tuple[str, ...]:
    best = result.best_other()
    ratios = [None if best is None or not result.is_equal(name) else result.speedup(name, best) for name in ours]
    return (result.model, best or "none", *("" if ratio is None else ratio_text(ratio) for ratio in ratios))


def _mean_lines(results: Sequence[ModelResult], name: str) -> list[str]:
    groups = {"all": tuple(result.model for result in results)}
    groups |= {group: tuple(model.name for model in models) for group, models in GROUPS.items()}
    lines = []
    for group, models in groups.items():
        found = [
            speedup.mean
            for result in results
            if result.model in models and result.is_equal(name) and (best := result.best_other()) is not None
            if (speedup := result.speedup(name, best)) is not None
        ]
        if found:
            lines.append(
                f"- {name}, {group}: geometric mean **{geometric_mean(found):.2f}x** over {len(found)} operators."
            )
    return lines
