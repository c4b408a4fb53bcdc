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
    "space": "/jobs/{space_job_id}/space?task=0&trial=2",
    "job of a model": "/jobs/{model_job_id}",
    "model": "/jobs/{model_job_id}/model",
    "copy": "/jobs/{job_id}/copy",
    "choice of jobs": "/jobs/compare",
    "comparison": "/jobs/compare?a={space_job_id}&b={other_job_id}",
    "records": "/records",
    "record": "/records/{record_id}",
    "changes": "/records/{record_id}?show=diff",
    "trace": "/records/{record_id}?show=python",
    "scheduled": "/records/{record_id}?show=scheduled",
    "lowered": "/records/{record_id}?show=lowered",
    "assembly": "/records/{record_id}?show=assembly",
    "trace as JSON": "/records/{record_id}?show=json",
    "artifact": "/records/{record_id}?show=artifact",
    "devices": "/devices",
    "device": "/devices/{device_id}",
    "releases": "/releases",
    "channel": "/releases/{channel}",
    "usage": "/usage",
    "tokens": "/tokens",
    "login": "/login",
    "no such page": "/nothing",
}
ALIKE: Final = frozenset(
    {
        *("jobs", "running jobs", "waiting job", "trials", "failed trials", "job of a model", "choice of jobs"),
        *("comparison", "records", "changes", "trace", "scheduled", "lowered", "assembly", "trace as JSON"),
        *("artifact", "devices", "releases", "usage", "tokens", "no such page"),
    }
)
"""Pages made of the same parts as another one, which ``make test`` leaves to ``make test-browser``."""
DRAWN: Final = frozenset({"model", "device"})
"""Pages of drawings such as that of a space, with other texts."""
UNSTEADY: Final = frozenset(
    {"failed trials", "device", "tokens", "job of a model", "trace", "scheduled", "lowered", "assembly"}
)
"""Pages of which no picture is kept: they depend on the host or on other tests, or look like another one."""
PARTS: Final = frozenset(
    {
        "/enter",
        "/jobs/{job_id}/actions",
        "/jobs/{job_id}/chart",
        "/jobs/{job_id}/live",
        "/jobs/compare/chart",
    }
)
"""Routes whose answers are no pages of their own."""
DOWNLOADS: Final = {
    "timeline": "/jobs/{job_id}/timeline?exploration={exploration_id}",
    "trace": "/records/{record_id}/trace",
    "code": "/records/{record_id}/code/diff",
    "library": "/artifacts/{artifact_id}/library",
    "manifest": "/artifacts/{artifact_id}/manifest",
}


@dataclass(frozen=True)
class Shown:
    """The ids of what the pages show."""

    job_id: str
    open_job_id: str
    exploration_id: str
    record_id: str
    artifact_id: str
    space_job_id: str
    """A job whose search has enough trials for the page of its space."""
    other_job_id: str
    """A second job of the same task."""
    model_job_id: str
    device_id: str
    channel: str


def paths_of(shown: Shown) -> dict[str, str]:
    """The path of each page below the root of the pages."""
    return {name: path.format_map(vars(shown)) for name, path in PAGES.items()}


def downloads_of(shown: Shown) -> dict[str, str]:
    """The path of each download below the root of the pages."""
    return {name: path.format_map(vars(shown)) for name, path in DOWNLOADS.items()}
