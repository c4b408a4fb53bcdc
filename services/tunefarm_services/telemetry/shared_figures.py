"""Metrics that several processes of one service count together.

prometheus_client keeps those of each process in files of a common folder, and the process that answers a scrape adds
them up. Counters of a dead process remain.
"""

import os
from pathlib import Path
from typing import Final

import prometheus_client.values
from prometheus_client.multiprocess import mark_process_dead

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


def share_figures(folder: Path) -> None:
    """Make this process and its future forks count in ``folder``. Call this before creating any Metrics."""
    os.environ[FOLDER_VARIABLE] = str(folder)
    # prometheus_client reads the variable at import, which may have happened long ago.
    prometheus_client.values.ValueClass = prometheus_client.values.MultiProcessValue()  # type: ignore[no-untyped-call]


def shared_folder() -> Path | None:
    """The folder of shared metrics; None if this process counts for itself."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return None if folder is None else Path(folder)


def forget_process(process_id: int) -> None:
    """Remove the live gauges of a dead process; its counters remain."""
    mark_process_dead(process_id)  # type: ignore[no-untyped-call]
