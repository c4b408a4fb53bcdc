"""Every page, for the tests that look at all of them. A new page is one line here."""

from dataclasses import dataclass
from typing import Final

PAGES: Final = {
    "overview": "/",
    "jobs": "/jobs",
    "running jobs": "/jobs?state=running",
    "job": "/jobs/{job_id}",
    "waiting job": "/jobs/{open_job_id}",
    "trials": "/jobs/{job_id}/trials?exploration={exploration_id}",
    "failed trials": "/jobs/{job_id}/trials?exploration={exploration_id}&failed=1",
    "records": "/records",
    "record": "/records/{record_id}",
    "devices": "/devices",
    "login": "/login",
    "no such page": "/nothing",
}
UNSTEADY: Final = frozenset({"failed trials"})
"""Pages of which no picture is kept, because it would show what happened on the host."""
PARTS: Final = frozenset({"/enter", "/jobs/{job_id}/actions", "/jobs/{job_id}/chart", "/jobs/{job_id}/live"})
"""Routes whose answers are no pages of their own."""
DOWNLOADS: Final = frozenset({"/jobs/{job_id}/timeline"})


@dataclass(frozen=True)
class Shown:
    """The ids of what the pages show."""

    job_id: str
    open_job_id: str
    exploration_id: str
    record_id: str


def paths_of(shown: Shown) -> dict[str, str]:
    """The path of each page below the root of the pages."""
    return {name: path.format_map(vars(shown)) for name, path in PAGES.items()}
