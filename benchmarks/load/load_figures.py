"""The results of a load test."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tunefarm_schemas.frozen import Frozen

READ_GOAL_S: Final = 0.05


class LoadSample(NamedTuple):
    """One request: its end in seconds since the epoch, its route, duration, status and error."""

    at_s: float
    route: str
    latency_s: float
    status: int
    error: str


class RouteFigures(Frozen):
    """Latencies of one route, measured by its clients."""

    route: str
    requests: int
    errors: int
    p50_s: float
    p95_s: float
    p99_s: float
    longest_s: float


class LoadFigures(Frozen):
    """A whole run. Processor time is in cores: 1.0 is one fully used core.

    ``api_rss_bytes`` is of the largest API process, ``api_unshared_bytes`` of all, with shared memory counted once.
    """

    clients: int
    seconds: float
    database: str
    records: int
    jobs: int
    requests_per_s: float
    errors: int
    reads: RouteFigures
    routes: tuple[RouteFigures, ...]
    server_reads_within_goal: float
    api_cores: float
    children_cores: float
    clients_cores: float
    api_processes: int
    api_cpu_s_per_request: float
    api_rss_bytes: int
    api_unshared_bytes: int
    first_errors: tuple[str, ...]


def samples_in(path: Path, after_s: float) -> list[LoadSample]:
    """Samples of a file with one JSON array per line, without those that ended before ``after_s``."""
    with path.open(encoding="utf-8") as lines:
        found = [LoadSample(*json.loads(line)) for line in lines]
    return [sample for sample in found if sample.at_s >= after_s]


def route_figures(route: str, samples: Sequence[LoadSample]) -> RouteFigures:
    """Quantiles of at least one sample."""
    ordered = sorted(sample.latency_s for sample in samples)
    return RouteFigures(
        route=route,
        requests=len(ordered),
        errors=sum(bool(sample.error) for sample in samples),
        p50_s=_quantile(ordered, 0.5),
        p95_s=_quantile(ordered, 0.95),
        p99_s=_quantile(ordered, 0.99),
        longest_s=ordered[-1],
    )


def by_route(samples: Sequence[LoadSample]) -> tuple[RouteFigures, ...]:
    """Figures of each route."""
    names = sorted({sample.route for sample in samples})
    return tuple(route_figures(name, [sample for sample in samples if sample.route == name]) for name in names)


def table(figures: LoadFigures) -> str:
    """The run as Markdown."""
    rows = [_row(each) for each in (figures.reads, *figures.routes)]
    return "\n".join(
        (
            f"{figures.clients} clients, {figures.seconds:.0f} s, {figures.database}, {figures.records:,} records, "
            f"{figures.jobs:,} jobs: {figures.requests_per_s:.0f} requests/s, {figures.errors} errors. "
            f"Cores: API {figures.api_cores:.2f} ({figures.api_cpu_s_per_request * 1e3:.2f} ms a request), its intake "
            f"{figures.children_cores:.2f}, clients {figures.clients_cores:.2f}. "
            f"{figures.api_processes} API processes, each up to {figures.api_rss_bytes / 1e6:.0f} MB, together "
            f"{figures.api_unshared_bytes / 1e6:.0f} MB. By the API's clock "
            f"{figures.server_reads_within_goal:.2%} of reads took up to {READ_GOAL_S * 1e3:.0f} ms.",
            "",
            "| route | requests | errors | p50 ms | p95 ms | p99 ms | longest ms |",
            "|---|---|---|---|---|---|---|",
            *rows,
        )
    )


def _row(each: RouteFigures) -> str:
    times = " | ".join(f"{seconds * 1e3:.1f}" for seconds in (each.p50_s, each.p95_s, each.p99_s, each.longest_s))
    return f"| {each.route} | {each.requests} | {each.errors} | {times} |"


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
