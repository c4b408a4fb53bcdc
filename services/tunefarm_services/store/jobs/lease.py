"""The exclusive, temporary right to work on a job."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of that right; every write to a job includes it.

    ``fence`` grows by one each time the job is leased, which identifies a writer that slept through its expiry.
    ``expires_at`` is in seconds since the Unix epoch, by the clock of the database's host.

    The holder does not compare the time: it may be paused between that check and its write, for longer than the lease,
    and its host's clock may differ. The database compares the fence in the transaction of each write instead. The
    expiry only decides when another owner may take the job.
    """

    tenant: str
    job_id: str
    owner: str
    fence: int
    expires_at: float
