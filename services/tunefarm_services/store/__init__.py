"""SQL tables, migrations, and content-addressed blobs behind one interface.

``Store`` is the whole of it. SQLite and PostgreSQL are served by the same statements; the URL chooses.
"""

from tunefarm_services.store.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import (
    BlobDamaged,
    BlobMissing,
    DatabaseOutdated,
    DatabaseTooNew,
    FenceLost,
    JobBusy,
    NotFound,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from tunefarm_services.store.stored import (
    LOCAL_TENANT,
    TENANT_STREAM,
    GarbageReport,
    IntegrityReport,
    JobRequest,
    StoredModel,
    StoredTrial,
    StoreStatistics,
    TrialState,
)

__all__ = [
    "LOCAL_TENANT",
    "TENANT_STREAM",
    "BlobDamaged",
    "BlobMissing",
    "DatabaseOutdated",
    "DatabaseTooNew",
    "FenceLost",
    "GarbageReport",
    "IntegrityReport",
    "JobBusy",
    "JobRequest",
    "Lease",
    "NotFound",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreStatistics",
    "StoreUnavailable",
    "StoredModel",
    "StoredTrial",
    "TrialState",
]
