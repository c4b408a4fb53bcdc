"""Why the store could not do what it was asked."""


class StoreError(Exception):
    """Root of every error that the store raises on purpose. Its text says what happened and what to do."""


class StoreUnavailable(StoreError):
    """The database or the blob store cannot be used now: locked, full, unreachable, or not ours.

    Attributes:
        reason: what is wrong.
        fix: what to do about it.
    """

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(f"{reason} {fix}")
        self.reason = reason
        self.fix = fix


class TransactionLost(StoreUnavailable):
    """The database undid a transaction because of another one. Doing it again may well succeed."""


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
    """A write came with a lease that is no longer the job's: someone else has taken over. Nothing was written."""

    def __init__(self, subject: str, fence: int) -> None:
        super().__init__(f"The lease with fence {fence} no longer holds {subject}; another owner has taken over.")
        self.subject = subject
        self.fence = fence


class NotFound(StoreError):
    """The store holds no such thing for this tenant."""

    def __init__(self, noun: str, name: str) -> None:
        super().__init__(f"There is no {noun} {name[:100]!r}.")
        self.noun = noun
        self.name = name


class StoreConflict(StoreError):
    """Something else is already stored under this identity. What is stored never changes silently."""

    def __init__(self, noun: str, name: str) -> None:
        super().__init__(f"Another {noun} is already stored as {name[:100]!r}.")
        self.noun = noun
        self.name = name


class JobBusy(StoreError):
    """A job cannot be deleted while someone works on it."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id[:100]!r} is being worked on. Cancel it first, then delete it.")
        self.job_id = job_id


class JobFinished(StoreError):
    """A job that has finished is asked to pause, to go on or to end."""

    def __init__(self, job_id: str, outcome: str) -> None:
        super().__init__(f"Job {job_id[:100]!r} has finished ({outcome}) and takes no more requests. Submit a new one.")
        self.job_id = job_id
        self.outcome = outcome


class NoSearch(StoreError):
    """A job that only measures is asked to finish with what its search found."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id[:100]!r} measures modules as they are, so it has no search to end. Wait for it, or cancel it."
        )
        self.job_id = job_id


class BlobMissing(StoreError):
    """A row refers to content that the blob store does not hold."""

    def __init__(self, blob_digest: str) -> None:
        super().__init__(f"The blob {blob_digest} is missing. Restore it from a backup, or see: tunefarm db check")
        self.blob_digest = blob_digest


class BlobDamaged(StoreError):
    """Content in the blob store no longer has the digest that it is named after."""

    def __init__(self, blob_digest: str) -> None:
        super().__init__(
            f"The blob {blob_digest} is damaged: its bytes have another digest. "
            "Restore it from a backup, or see: tunefarm db check"
        )
        self.blob_digest = blob_digest


class RowDamaged(StoreError):
    """A row holds what this version never writes, or no version does."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"A row of {where} is damaged: {reason}. Restore the database from a backup, or see: tunefarm db check"
        )


class WrongOffset(StoreError):
    """A piece of an upload does not begin where the last one ended.

    Attributes:
        expected: the byte at which the next piece has to begin.
    """

    def __init__(self, upload_id: str, offset: int, expected: int) -> None:
        super().__init__(f"Upload {upload_id[:100]!r} goes on at byte {expected}, not at {offset}.")
        self.upload_id = upload_id
        self.offset = offset
        self.expected = expected


class UploadIncomplete(StoreError):
    """An upload is to be used before all of it has arrived."""

    def __init__(self, upload_id: str, received_bytes: int, size_bytes: int) -> None:
        super().__init__(f"Upload {upload_id[:100]!r} has {received_bytes} of {size_bytes} bytes. Send the rest first.")
        self.upload_id = upload_id
        self.received_bytes = received_bytes
        self.size_bytes = size_bytes
