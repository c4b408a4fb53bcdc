"""``--resume`` with or without the id of a job."""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tunefarm_schemas.tuning.job import Job

LATEST: Final = "latest"
JOB_ID: Final = re.compile(r"[0-9a-f][0-9a-f-]{0,63}")
"""A job's id or a prefix of it. No module matches: each has a suffix or a colon."""


def with_resume_value(words: list[str]) -> list[str]:
    """Insert ``latest`` after every ``--resume`` that is not followed by a job id."""
    completed: list[str] = []
    for position, word in enumerate(words):
        completed.append(word)
        following = words[position + 1] if position + 1 < len(words) else ""
        if word == "--resume" and not (JOB_ID.fullmatch(following) or following == LATEST):
            completed.append(LATEST)
    return completed


def module_of(job: "Job") -> str:
    """The module that was given when the job was created."""
    return job.spec.labels.get("module", "an unnamed module")
