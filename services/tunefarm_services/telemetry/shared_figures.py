"""Figures that several processes of one service count together.

prometheus_client keeps those of each process in files of a common folder, and whoever answers a scrape adds them up.
What a process has counted stays counted after its death.
"""

import os
from pathlib import Path
from typing import Final

import prometheus_client.values
from prometheus_client.multiprocess import mark_process_dead

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


def share_figures(folder: Path) -> None:
    """Let this process and those that it forks count in ``folder``. Called before any Metrics is made."""
    os.environ[FOLDER_VARIABLE] = str(folder)
    # It looks at the variable when it is imported, which may have been long ago.
    prometheus_client.values.ValueClass = prometheus_client.values.MultiProcessValue()  # type: ignore[no-untyped-call]


def shared_folder() -> Path | None:
    """Where figures are shared; None where this process counts for itself."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return None if folder is None else Path(folder)


def forget_process(process_id: int) -> None:
    """Count no longer what a process that has died was doing; what it had done stays."""
    mark_process_dead(process_id)  # type: ignore[no-untyped-call]
