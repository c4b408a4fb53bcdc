"""How many devices one tuner keeps busy, and the cost of each candidate.

``python -m benchmarks.farm.farm_scaling --output FOLDER`` runs increasing numbers of simulated devices, with recorded
build and run times, on a Redis and a database that it starts. It writes the figures as JSON, a plot and a table, merged
with existing ones for other numbers of devices. It fails if a candidate was lost or counted twice, or if a queue held
more than the devices accept.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from benchmarks.farm.farm_scaling_point import ScalingPoint, run_point
from benchmarks.farm.farm_scaling_report import markdown, plot
from benchmarks.farm.farm_servers import empty_database

DEVICES = (1, 16, 64, 128, 256, 512, 1000)


def main() -> None:
    """Run all points and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="*", default=DEVICES)
    parser.add_argument("--window-s", type=float, default=10.0, help="duration of each measurement")
    parser.add_argument("--room", type=int, default=3, help="candidates that a device holds at the same time")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--stretch", type=float, default=1.0, help="factor by which devices are slower")
    parser.add_argument("--output", type=Path, default=None, help="folder for JSON, plot and table")
    options = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(40), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    points = []
    for devices in options.devices:
        points.append(_run(devices, options))
        print(points[-1].model_dump_json(), flush=True)
    if options.output is not None:
        points = _write(points, options.output, options.database)
    print(markdown(points))
    if wrong := [point for point in points if not point.is_right(options.room)]:
        sys.exit(f"A candidate was lost or counted twice, or a queue was too long: {wrong}")


def _run(devices: int, options: argparse.Namespace) -> ScalingPoint:
    with empty_database(options.database, f"scaling_{devices}") as (url, server):
        return run_point(
            devices, url, window_s=options.window_s, room=options.room, stretch=options.stretch, server=server
        )


def _write(points: Sequence[ScalingPoint], folder: Path, database: str) -> list[ScalingPoint]:
    """Merge the points with existing ones and return all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"farm-scaling-{database}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    found = [*(ScalingPoint.model_validate(point) for point in known), *points]
    latest = {(point.stretch, point.devices): point for point in found}
    merged = [latest[key] for key in sorted(latest)]
    path.write_text(json.dumps([point.model_dump() for point in merged], indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(merged) + "\n", encoding="utf-8")
    plot(merged, path.with_suffix(".svg"))
    return merged


if __name__ == "__main__":
    main()
