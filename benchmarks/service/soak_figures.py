"""Figures of a soak: lines through the memory and descriptors of each process, and a verdict."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.report.drawing import load_pyplot
from benchmarks.report.slope import Slope, slope_of
from benchmarks.service.process_family import ProcessSample
from tunefarm_schemas.frozen import Frozen

SETTLED_AFTER: Final = 0.25
"""The share of a soak excluded from the lines, in which caches and pools reach their size."""


class RoleFigures(Frozen):
    """One long-lived process. ``starts`` counts the processes that had its role."""

    role: str
    starts: int
    rss_first_bytes: int
    rss_last_bytes: int
    rss: Slope | None
    descriptors: Slope | None

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.starts > 1:
            return "was restarted"
        if self.rss is None or self.descriptors is None:
            return "too few samples"
        grows = [
            name
            for name, slope in (("memory", self.rss), ("descriptors", self.descriptors))
            if not slope.is_within_noise
        ]
        return f"grows: {', '.join(grows)}" if grows else "slope within noise"


class SoakFigures(Frozen):
    """The figures of a whole soak."""

    minutes: float
    database: str
    requests: int
    errors: int
    jobs_succeeded: int
    jobs_failed: int
    processes_left: int
    roles: tuple[RoleFigures, ...]
    first_errors: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed, no process was left, and no line grows beyond its noise."""
        is_clean = self.errors == self.jobs_failed == self.processes_left == 0
        return is_clean and all(role.verdict == "slope within noise" for role in self.roles)


def role_figures(samples: Iterable[ProcessSample], *, interval_s: float) -> tuple[RoleFigures, ...]:
    """Figures of each long-lived process."""
    of_role: dict[str, list[ProcessSample]] = {}
    for sample in samples:
        if sample.role not in {"child", "other"}:
            of_role.setdefault(sample.role, []).append(sample)
    return tuple(_figures(role, found, interval_s) for role, found in sorted(of_role.items()))


def table(figures: SoakFigures) -> str:
    """The soak as Markdown."""
    head = (
        f"{figures.minutes:.0f} min, {figures.database}: {figures.requests:,} requests with {figures.errors} errors, "
        f"{figures.jobs_succeeded} jobs tuned, {figures.jobs_failed} failed, {figures.processes_left} processes left."
    )
    rows = [_row(role) for role in figures.roles]
    columns = "| process | first MB | last MB | MB/hour (95%) | descriptors | per hour (95%) | verdict |"
    return "\n".join((head, "", columns, "|---|---|---|---|---|---|---|", *rows))


def plot_soak(samples: Sequence[ProcessSample], path: Path) -> None:
    """Plot memory and descriptors over time for each long-lived process, as SVG and PNG."""
    pyplot = load_pyplot()
    figure, (memory, descriptors) = pyplot.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    began_s = samples[0].at_s
    for role in sorted({sample.role for sample in samples} - {"child", "other"}):
        found = [sample for sample in samples if sample.role == role]
        minutes = [(sample.at_s - began_s) / 60 for sample in found]
        memory.plot(minutes, [sample.rss_bytes / 1e6 for sample in found], label=role)
        descriptors.plot(minutes, [sample.descriptors for sample in found], label=role)
    memory.set(xlabel="time [min]", ylabel="resident [MB]", ylim=(0, None))
    descriptors.set(xlabel="time [min]", ylabel="open descriptors", ylim=(0, None))
    memory.legend()
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=120)
    pyplot.close(figure)


def _figures(role: str, samples: Sequence[ProcessSample], interval_s: float) -> RoleFigures:
    began_s, ended_s = samples[0].at_s, samples[-1].at_s
    settled = [s for s in samples if s.at_s >= began_s + SETTLED_AFTER * (ended_s - began_s + interval_s)]
    times_s = [sample.at_s for sample in settled]
    return RoleFigures(
        role=role,
        starts=len({sample.pid for sample in samples}),
        rss_first_bytes=samples[0].rss_bytes,
        rss_last_bytes=samples[-1].rss_bytes,
        rss=slope_of(times_s, [float(sample.rss_bytes) for sample in settled]),
        descriptors=slope_of(times_s, [float(sample.descriptors) for sample in settled]),
    )


def _row(role: RoleFigures) -> str:
    memory = f"{role.rss_first_bytes / 1e6:.0f} | {role.rss_last_bytes / 1e6:.0f} | {_growth(role.rss, 1e6)}"
    mean = "" if role.descriptors is None else f"{role.descriptors.mean:.1f}"
    return f"| {role.role} | {memory} | {mean} | {_growth(role.descriptors, 1.0)} | {role.verdict} |"


def _growth(slope: Slope | None, unit: float) -> str:
    if slope is None:
        return ""
    return f"{slope.growth_per_hour / unit:+.1f} ({slope.low / unit:+.1f} to {slope.high / unit:+.1f})"
