"""The update that is running, so that the next start can finish or undo it."""

from typing import Literal

from pydantic import ValidationError

from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_schemas.edge.release import Name
from tunefarm_schemas.edge.report import EdgeFailure
from tunefarm_schemas.frozen import Frozen

Step = Literal["fetching", "staging", "testing", "switching", "confirming", "rolling_back"]


class Journal(Frozen):
    """One update.

    Attributes:
        step: what was begun last.
        release: the name of the release.
        sequence: of the channel document that named it.
        folder: of the release, below ``releases``.
        came_from: the folder that ``current`` pointed to; None before the first release.
        failure, problem: why it is rolled back.
    """

    step: Step
    release: Name
    sequence: int
    folder: str
    came_from: str | None
    failure: EdgeFailure | None = None
    problem: str = ""


def read_journal(root: EdgeRoot) -> Journal | None:
    """The update that the last agent left, if any."""
    try:
        return Journal.model_validate_json(root.journal.read_bytes())
    except (FileNotFoundError, ValidationError):
        # A damaged journal tells nothing: ``current`` points to a whole release in any case.
        return None


def write_journal(root: EdgeRoot, journal: Journal) -> Journal:
    """Write a step before it begins."""
    root.disk.replace_file(root.journal, journal.model_dump_json().encode())
    return journal


def clear_journal(root: EdgeRoot) -> None:
    """The update has ended."""
    root.disk.remove(root.journal)
    root.disk.sync_folder(root.path)
