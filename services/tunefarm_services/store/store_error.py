"""Errors of the store."""


class StoreError(Exception):
    """Root of all errors that the store raises deliberately. The text says what happened and what to do."""


class StoreUnavailable(StoreError):
    """The database or the blob store cannot be used now: locked, full, unreachable, or another program's.

    Attributes:
        reason: what is wrong.
        fix: what to do about it.
    """

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(f"{reason} {fix}")
        self.reason = reason
        self.fix = fix


class TransactionLost(StoreUnavailable):
    """The database rolled a transaction back because of another one. Repeating it may succeed."""


class DatabaseOutdated(StoreError):
    """The database has an older schema than this version of tunefarm."""

    def __init__(self, revision: str | None, wanted: str) -> None:
        super().__init__(
            f"The database is at schema revision {revision or 'none'}, this version needs {wanted}. "
            "Back it up, then run: tunefarm db upgrade"
        )
        self.revision = revision
        self.wanted = wanted


class DatabaseTooNew(StoreError):
    """The database has a newer schema than this version of tunefarm."""

    def __init__(self, revision: str, known: str) -> None:
        super().__init__(
            f"The database is at schema revision {revision}, newer than {known}, the last one this version knows. "
            "Install the version of tunefarm that wrote it, or choose another TUNEFARM_HOME."
        )
        self.revision = revision
        self.known = known


class FenceLost(StoreError):
    """A write with a lease that has lost its job: another owner has taken over. Nothing was written."""

    def __init__(self, subject: str, fence: int) -> None:
        super().__init__(f"The lease with fence {fence} no longer holds {subject}; another owner has taken over.")
        self.subject = subject
        self.fence = fence


class NotFound(StoreError):
    """The store has no such object for this tenant."""

    def __init__(self, noun: str, name: str) -> None:
        super().__init__(f"There is no {noun} {name[:100]!r}.")
        self.noun = noun
        self.name = name


class StoreConflict(StoreError):
    """Another object is already stored under this identity. Stored objects never change silently."""

    def __init__(self, noun: str, name: str) -> None:
        super().__init__(f"Another {noun} is already stored as {name[:100]!r}.")
        self.noun = noun
        self.name = name


class RolloutRefused(StoreError):
    """A rollout cannot do this in its present state, or a channel document is not newer than the stored one."""


class JobBusy(StoreError):
    """A job cannot be deleted while it is leased."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id[:100]!r} is being worked on. Cancel it first, then delete it.")
        self.job_id = job_id


class JobFinished(StoreError):
    """A pause, resume or finish request for a job that has finished."""

    def __init__(self, job_id: str, outcome: str) -> None:
        super().__init__(f"Job {job_id[:100]!r} has finished ({outcome}) and accepts no requests. Submit a new one.")
        self.job_id = job_id
        self.outcome = outcome


class NoSearch(StoreError):
    """A finish request for a job that only measures and has no search."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id[:100]!r} measures modules as they are, so it has no search to end. Wait for it, or cancel it."
        )
        self.job_id = job_id


class QuotaExceeded(StoreError):
    """A tenant has as much as it may have. Nothing was written."""


class BlobMissing(StoreError):
    """A row refers to content that is not in the blob store."""

    def __init__(self, blob_digest: str) -> None:
        super().__init__(f"The blob {blob_digest} is missing. Restore it from a backup, or see: tunefarm db check")
        self.blob_digest = blob_digest


class BlobDamaged(StoreError):
    """The content of a blob does not match its digest."""

    def __init__(self, blob_digest: str) -> None:
        super().__init__(
            f"The blob {blob_digest} is damaged: its content has another digest. "
            "Restore it from a backup, or see: tunefarm db check"
        )
        self.blob_digest = blob_digest


class RowDamaged(StoreError):
    """A row has content that this version never writes."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"A row of {where} is damaged: {reason}. Restore the database from a backup, or see: tunefarm db check"
        )


class WrongOffset(StoreError):
    """A piece of an upload does not begin where the previous one ended.

    Attributes:
        expected: the byte at which the next piece must begin.
    """

    def __init__(self, upload_id: str, offset: int, expected: int) -> None:
        super().__init__(f"Upload {upload_id[:100]!r} continues at byte {expected}, not at {offset}.")
        self.upload_id = upload_id
        self.offset = offset
        self.expected = expected


class UploadIncomplete(StoreError):
    """An upload was used before all of it arrived."""

    def __init__(self, upload_id: str, received_bytes: int, size_bytes: int) -> None:
        super().__init__(f"Upload {upload_id[:100]!r} has {received_bytes} of {size_bytes} bytes. Send the rest first.")
        self.upload_id = upload_id
        self.received_bytes = received_bytes
        self.size_bytes = size_bytes
