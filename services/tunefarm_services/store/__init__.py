"""SQL tables, migrations, and content-addressed blobs behind one interface.

``Store`` has one repository for each noun. The same statements serve SQLite and PostgreSQL; the URL chooses.
"""

from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import (
    BlobDamaged,
    BlobMissing,
    DatabaseOutdated,
    DatabaseTooNew,
    FenceLost,
    JobBusy,
    JobFinished,
    NoSearch,
    NotFound,
    QuotaExceeded,
    RolloutRefused,
    RowDamaged,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    UploadIncomplete,
    WrongOffset,
)
from tunefarm_services.store.stored import (
    LOCAL_TENANT,
    TENANT_STREAM,
    JobRequest,
    RetentionPolicy,
    RetentionReport,
    StoredTrial,
)
from tunefarm_services.store.tenants.key_claim import Answered, Claimed, InProgress, Mismatch

__all__ = [
    "LOCAL_TENANT",
    "TENANT_STREAM",
    "Answered",
    "BlobDamaged",
    "BlobMissing",
    "Claimed",
    "DatabaseOutdated",
    "DatabaseTooNew",
    "FenceLost",
    "InProgress",
    "JobBusy",
    "JobFinished",
    "JobRequest",
    "Lease",
    "Mismatch",
    "NoSearch",
    "NotFound",
    "QuotaExceeded",
    "RetentionPolicy",
    "RetentionReport",
    "RolloutRefused",
    "RowDamaged",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreUnavailable",
    "StoredTrial",
    "UploadIncomplete",
    "WrongOffset",
]
