"""The exclusive, temporary right to work on a job."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of that right; every write to a job includes it.

    ``fence`` grows by one each time the job is leased, which identifies a writer that slept through its expiry.
    ``expires_at`` is in seconds since the Unix epoch, by the clock of the database's host.
    """

    tenant: str
    job_id: str
    owner: str
    fence: int
    expires_at: float
