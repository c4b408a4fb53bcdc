"""Dispatches of candidates, with nonce and fence that tell their results from forged and late ones."""

import secrets
from uuid import uuid4

from tunefarm_schemas.tuning.measurement import Candidate, Dispatch, Purpose

ATTEMPTS = 2
"""Attempts at a candidate. A third would let one that crashes its host take down host after host."""


def dispatch_of(candidate: Candidate, *, fence: int, attempt: int = 1) -> Dispatch:
    """One attempt at ``candidate`` under the job's current ``fence``."""
    return Dispatch(
        dispatch_id=uuid4().hex,
        nonce=secrets.token_hex(16),
        fence=fence,
        attempt=attempt,
        purpose=Purpose.SEARCH,
        candidate=candidate,
    )
