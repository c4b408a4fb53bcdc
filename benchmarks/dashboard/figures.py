"""What the benchmark of the pages finds, as JSON and as a page of Markdown."""

from collections.abc import Sequence
from typing import Final

from benchmarks.machine import Machine
from benchmarks.report.markdown_table import machine_line, table
from tunefarm_schemas.frozen import Frozen


class Paint(Frozen):
    """First contentful paints of a page, in seconds, each in a browser context with an empty cache."""

    page: str
    seconds: tuple[float, ...]


class Interactions(Frozen):
    """Seconds of one kind of interaction, until the next frame or the first paint of the next page."""

    kind: str
    seconds: tuple[float, ...]


class ViewerFigures(Frozen):
    """Viewers of one running job: each has its stream of messages, and fetches the chart as the page does.

    Attributes:
        events: that were written while all were connected.
        lost: events that a viewer did not see, summed over viewers.
        behind: viewers that did not show the last event in the end.
        kills: of the API.
        delays_s: quantiles 0.5, 0.99 and 1 of the time from the commit of an event to its arrival, apart from kills.
        cpu_share: of one core, of all processes of the API together.
    """

    viewers: int
    events: int
    lost: int
    behind: int
    kills: int
    delays_s: tuple[float, float, float]
    charts: int
    seconds: float
    cpu_share: float
    cpu_ms_per_viewer_s: float
    server_bytes: int


class Beside(Frozen):
    """The page of a study or job of one size, in one of the two dashboards."""

    name: str
    trials: int
    first_paints_s: tuple[float, ...]
    settled_s: float
    script_bytes: int
    heap_bytes: int
    renderer_bytes: int


class DashboardFigures(Frozen):
    """All figures of a run."""

    machine: Machine
    trials: int
    fill_s: float
    paints: tuple[Paint, ...]
    chart_drawn_s: tuple[float, ...]
    interactions: tuple[Interactions, ...]
    script_bytes: int
    event_to_screen_s: tuple[float, ...]
    viewers: ViewerFigures | None
    beside: tuple[Beside, ...]


_MEBIBYTE: Final = 1 << 20


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def page_of(figures: DashboardFigures) -> str:
    """The page of Markdown."""
    lines = [
        "# Pages for browsers",
        "",
        f"A job with {figures.trials:,} trials, written in {figures.fill_s:.0f} s. Chromium, without a cache.",
        "",
        *table(("first contentful paint of", "median", "p95"), [_row(p.page, p.seconds) for p in figures.paints]),
        "",
        *table(
            ("time until", "median", "p95"),
            [
                _row("the charts of the job are drawn", figures.chart_drawn_s),
                *(_row(each.kind, each.seconds) for each in figures.interactions),
                _row("an event is on the screen", figures.event_to_screen_s),
            ],
        ),
        "",
        f"The scripts of the page of a job are {figures.script_bytes / 1e3:.1f} kB, compressed.",
        "",
        *(_viewer_lines(figures.viewers) if figures.viewers is not None else []),
        *(_beside_lines(figures.beside) if figures.beside else []),
        "## Machine",
        "",
        machine_line(figures.machine),
        "",
    ]
    return "\n".join(lines)


def _row(name: str, seconds: Sequence[float]) -> tuple[str, str, str]:
    return name, f"{1e3 * quantile(seconds, 0.5):.0f} ms", f"{1e3 * quantile(seconds, 0.95):.0f} ms"


def _viewer_lines(found: ViewerFigures) -> list[str]:
    middle_s, high_s, longest_s = found.delays_s
    cells = (
        str(found.viewers),
        str(found.events),
        str(found.lost),
        f"{found.behind} after {found.kills} kill{'' if found.kills == 1 else 's'} of the API",
        f"{1e3 * middle_s:.0f} / {1e3 * high_s:.0f} / {1e3 * longest_s:.0f} ms",
        f"{found.charts / found.seconds:.0f}/s",
        f"{found.cpu_share:.0%} of a core",
        f"{found.cpu_ms_per_viewer_s:.2f} ms",
        f"{found.server_bytes / _MEBIBYTE:.0f} MiB",
    )
    head = (
        "viewers", "events", "lost", "viewers behind", "delay p50 / p99 / longest", "charts", "processor time",
        "per viewer and second", "memory",
    )  # fmt: skip
    return ["## Viewers of one running job", "", *table(head, [cells]), ""]


def _beside_lines(found: Sequence[Beside]) -> list[str]:
    head = ("dashboard", "trials", "first paint", "settled", "scripts", "heap of scripts", "renderer process")
    rows = [
        (
            each.name,
            f"{each.trials:,}",
            f"{quantile(each.first_paints_s, 0.5):.2f} s",
            f"{each.settled_s:.2f} s",
            f"{each.script_bytes / 1e3:.0f} kB",
            f"{each.heap_bytes / _MEBIBYTE:.1f} MiB",
            f"{each.renderer_bytes / _MEBIBYTE:.0f} MiB",
        )
        for each in found
    ]
    return ["## Beside Optuna's dashboard", "", *table(head, rows), ""]
