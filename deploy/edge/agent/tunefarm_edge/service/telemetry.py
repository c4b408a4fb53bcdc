"""Turns the histograms of running models into reports, with the processor's temperature and clock."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tunefarm_edge.runtime.latencies import SIZE_BYTES, SUFFIX, Histogram
from tunefarm_edge.service.report_spool import ReportSpool
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.installed import release_name
from tunefarm_schemas.edge.report import LatencyReport

MAX_HISTOGRAM_FILES: Final = 1_000
"""Any program may write into that folder; more files are not read."""


def report_latencies(root: EdgeRoot, spool: ReportSpool, system: Path = Path("/sys")) -> int:
    """Put a report of each process's latencies since the last ones into the spool; returns how many.

    A report's id derives from the counts, so that a report of the same counts that is made twice, because the device
    stopped in between, counts once.
    """
    made = 0
    for old in root.latencies.glob("*.reported"):  # of agents before they had a folder of their own for these
        root.disk.remove(old)
    for path in sorted(root.latencies.glob(f"*{SUFFIX}"))[:MAX_HISTOGRAM_FILES]:
        made += _report(root, spool, path, system)
        if not _is_alive(path):
            root.disk.remove(path)
            root.disk.remove(root.reported / path.name)
    return made


def _report(root: EdgeRoot, spool: ReportSpool, path: Path, system: Path) -> bool:
    content = _plain_content(path)
    histogram = Histogram.read(content)
    if histogram is None:
        return False
    mark = root.reported / path.name
    fresh = histogram.since(Histogram.read(_plain_content(mark)))
    if not fresh.runs:
        return False
    report_id = hashlib.sha256(path.name.encode() + content).hexdigest()[:32]
    try:
        report = _latency_report(release_name(path.name), fresh, system)
    except ValidationError:
        return False  # no release has this name
    spool.put(report, report_id)
    root.disk.replace_file(mark, content)
    return True


def _latency_report(release: str, histogram: Histogram, system: Path) -> LatencyReport:
    return LatencyReport(
        release=release,
        runs=histogram.runs,
        mean_s=histogram.mean_s,
        p50_s=histogram.quantile_s(0.5),
        p95_s=histogram.quantile_s(0.95),
        max_s=histogram.quantile_s(1.0),
        temperature_celsius=temperature_celsius(system),
        clock_hz=clock_hz(system),
    )


def _plain_content(path: Path) -> bytes:
    """The content of a regular file of the size of a histogram; empty for anything else that is there."""
    with contextlib.suppress(OSError):
        # Of a pipe, opening would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and found.st_size == SIZE_BYTES:
                return file.read(SIZE_BYTES)
    return b""


def _is_alive(path: Path) -> bool:
    process = path.name.removesuffix(SUFFIX).rpartition("@")[2]
    return process.isdecimal() and Path("/proc", process).exists()


def temperature_celsius(system: Path) -> float | None:
    """The hottest thermal zone."""
    return max((value / 1e3 for value in _numbers(system, "class/thermal/thermal_zone*/temp")), default=None)


def clock_hz(system: Path) -> float | None:
    """The fastest processor's clock now."""
    pattern = "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"
    return max((value * 1e3 for value in _numbers(system, pattern) if value > 0), default=None)


def _numbers(system: Path, pattern: str) -> Iterator[float]:
    for path in sorted(system.glob(pattern)):
        with contextlib.suppress(OSError, ValueError):
            yield float(path.read_text())
