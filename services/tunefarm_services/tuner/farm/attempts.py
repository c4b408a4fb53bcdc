"""Turning candidates into attempts that can be told from forged or late ones."""

import secrets
from uuid import uuid4

from tunefarm_schemas.tuning.measurement import Candidate, Dispatch, Purpose

ATTEMPTS = 2
"""A candidate that took its host down with it is sent once more, and then never again."""


def dispatch_of(candidate: Candidate, *, fence: int, attempt: int = 1) -> Dispatch:
    """One attempt at ``candidate`` under the job's present ``fence``."""
    return Dispatch(
        dispatch_id=uuid4().hex,
        nonce=secrets.token_hex(16),
        fence=fence,
        attempt=attempt,
        purpose=Purpose.SEARCH,
        candidate=candidate,
    )
