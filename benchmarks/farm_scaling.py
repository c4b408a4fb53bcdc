"""How many devices one tuner keeps busy, and what each candidate costs on the way.

``python -m benchmarks.farm_scaling --output FOLDER`` runs more and more simulated devices, whose build and run times
were recorded, on a Redis and a database that it starts itself, and then a thousand that are connected and have less to
do. It writes the figures as JSON, a plot and a table.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

from benchmarks.farm_scaling_point import ScalingPoint, run_point
from benchmarks.farm_scaling_report import markdown, plot

DEVICES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def main() -> None:
    """Run all points and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="*", default=DEVICES)
    parser.add_argument("--window-s", type=float, default=10.0, help="how long each point is measured")
    parser.add_argument("--room", type=int, default=3, help="candidates that a device takes at once")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--connected", type=int, default=1000, help="devices at the end; 0 leaves them out")
    parser.add_argument("--in-flight", type=int, default=64, help="how many candidates those have at once, together")
    parser.add_argument("--stretch", type=float, default=4.0, help="how many times slower those are")
    parser.add_argument("--output", type=Path, default=None, help="folder for JSON, plot and table")
    options = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(40), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    points = []
    for devices, stretch in [*((amount, 1.0) for amount in options.devices), (options.connected, options.stretch)]:
        if devices:
            points.append(_run(devices, stretch, options))
            print(points[-1].model_dump_json(), flush=True)
    print(markdown(points))
    if options.output is not None:
        _write(points, options.output, options.database)


def _run(devices: int, stretch: float, options: argparse.Namespace) -> ScalingPoint:
    room, in_flight = (options.room, None) if stretch == 1.0 else (1, options.in_flight)
    with _database(options.database, devices) as (url, server):
        return run_point(
            devices, url, window_s=options.window_s, room=room, stretch=stretch, in_flight=in_flight, server=server
        )


@contextmanager
def _database(kind: str, number: int) -> Iterator[tuple[str | None, int | None]]:
    """An empty database and the process of its server; None and None for a file."""
    if kind == "sqlite":
        yield None, None
        return
    from tests.servers.postgres_server import empty_database

    with empty_database(f"scaling_{number}") as url:
        yield url, _postmaster()


def _postmaster() -> int:
    """The PostgreSQL server that this process started last."""
    import psutil

    found = [p for p in psutil.process_iter(["name", "ppid", "create_time"]) if p.info["name"] == "postgres"]
    pids = {process.pid for process in found}
    tops = [process for process in found if process.info["ppid"] not in pids]
    return int(max(tops, key=lambda process: process.info["create_time"]).pid)


def _write(points: Sequence[ScalingPoint], folder: Path, database: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"farm-scaling-{database}"
    values = [point.model_dump() for point in points]
    (folder / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(markdown(points) + "\n", encoding="utf-8")
    plot(points, folder / f"{name}.svg")


if __name__ == "__main__":
    main()
