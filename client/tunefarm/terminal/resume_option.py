"""Lets ``--resume`` stand with or without the id of a job."""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tunefarm_schemas.tuning.job import Job

LATEST: Final = "latest"
JOB_ID: Final = re.compile(r"[0-9a-f][0-9a-f-]{0,63}")
"""Of a job's id the first characters are enough. No module is called so: each has a suffix or a colon."""


def with_resume_value(words: list[str]) -> list[str]:
    """The words, with ``latest`` after every ``--resume`` that no job id follows."""
    completed: list[str] = []
    for position, word in enumerate(words):
        completed.append(word)
        following = words[position + 1] if position + 1 < len(words) else ""
        if word == "--resume" and not (JOB_ID.fullmatch(following) or following == LATEST):
            completed.append(LATEST)
    return completed


def module_of(job: "Job") -> str:
    """What was named when the job was made."""
    return job.spec.labels.get("module", "a module of no name")
