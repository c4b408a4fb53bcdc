"""The right to work on a job, for a while."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of that right, which every write of a job carries.

    ``fence`` grows by one each time the job is leased, so that a writer who slept through its expiry is recognised.
    ``expires_at`` is in seconds since the Unix epoch, by the clock of the database's host.
    """

    tenant: str
    job_id: str
    owner: str
    fence: int
    expires_at: float
