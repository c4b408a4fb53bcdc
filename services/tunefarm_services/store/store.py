"""The store: everything tunefarm keeps."""

from pathlib import Path
from typing import Self

from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.catalog.device_rows import DeviceRows
from tunefarm_services.store.catalog.input_example_rows import InputExampleRows
from tunefarm_services.store.catalog.lane_rows import LaneRows
from tunefarm_services.store.catalog.target_rows import TargetRows
from tunefarm_services.store.catalog.workload_rows import WorkloadRows
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.database.schema_revision import NEEDED, require_current, revision_of, upgrade_to
from tunefarm_services.store.database.sqlite_file import prepare_file
from tunefarm_services.store.jobs.event_rows import EventRows
from tunefarm_services.store.jobs.job_deletion import JobDeletion
from tunefarm_services.store.jobs.job_request_rows import JobRequestRows
from tunefarm_services.store.jobs.job_rows import JobRows
from tunefarm_services.store.jobs.lease_rows import LeaseRows
from tunefarm_services.store.jobs.queue_overview import QueueOverviewRows
from tunefarm_services.store.jobs.queue_rows import QueueRows
from tunefarm_services.store.jobs.usage_rows import UsageRows
from tunefarm_services.store.records.artifact_rows import ArtifactRows
from tunefarm_services.store.records.record_match_rows import RecordMatchRows
from tunefarm_services.store.records.record_rows import RecordRows
from tunefarm_services.store.tenants.idempotency_rows import IdempotencyRows
from tunefarm_services.store.tenants.token_rows import TokenRows
from tunefarm_services.store.trials.exploration_rows import ExplorationRows
from tunefarm_services.store.trials.measurement_rows import MeasurementRows
from tunefarm_services.store.trials.model_rows import ModelRows
from tunefarm_services.store.trials.trial_rows import TrialRows
from tunefarm_services.store.upkeep.inspection import Inspection
from tunefarm_services.store.upkeep.retention import Retention


class Store(
    WorkloadRows,
    TargetRows,
    DeviceRows,
    JobRows,
    JobRequestRows,
    LeaseRows,
    EventRows,
    ExplorationRows,
    TrialRows,
    MeasurementRows,
    RecordRows,
    RecordMatchRows,
    ModelRows,
    ArtifactRows,
    InputExampleRows,
    QueueRows,
    QueueOverviewRows,
    TokenRows,
    IdempotencyRows,
    LaneRows,
    UsageRows,
    JobDeletion,
    Retention,
    Inspection,
):
    """Everything tunefarm keeps, in one database and one blob store. May be used from several threads.

    A method that returns has committed: what it stored survives a kill at any later instant. One that raises has
    changed nothing. Every method may raise StoreUnavailable.
    """

    @classmethod
    def open(
        cls,
        url: str,
        blob_root: Path | str,
        *,
        create: bool = True,
        upgrade: bool = False,
        busy_timeout_s: float = 10.0,
    ) -> Self:
        """Open the database at ``url`` and the blobs at ``blob_root``, a folder or an object store's URL.

        Args:
            url: ``sqlite:////path/file.db`` or ``postgresql://...``.
            blob_root: where blobs live.
            create: make what is missing.
            upgrade: migrate an older database instead of refusing it.
            busy_timeout_s: how long to wait for another process's write before giving up, in seconds.

        Raises:
            DatabaseOutdated: the database has an older schema; the message names the command that migrates it.
            DatabaseTooNew: a newer tunefarm wrote it.
            StoreUnavailable: it cannot be reached, is full, or is not ours.
            BadInput: a URL is not understood.
        """
        database = Database(url, busy_timeout_s=busy_timeout_s)
        try:
            # An object store that cannot be used is refused before a database is made; a folder is made after it.
            blobs = BlobStore(blob_root) if "://" in str(blob_root) else None
            _prepare_file(database, create=create, busy_timeout_s=busy_timeout_s)
            require_current(database, create=create, upgrade=upgrade)
            return cls(database, blobs or BlobStore(blob_root))
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def revision(self) -> str | None:
        """The schema revision that the database has."""
        with self._database.reading() as connection:
            return revision_of(connection)

    def upgrade(self) -> None:
        """Migrate to the revision that this version needs. Open an older database with ``upgrade=True`` instead."""
        upgrade_to(self._database, NEEDED)


def _prepare_file(database: Database, *, create: bool, busy_timeout_s: float) -> None:
    if database.path is None:
        return

    def make(path: Path) -> None:
        new = Database(database.url.set(database=str(path)).render_as_string(), busy_timeout_s=busy_timeout_s)
        try:
            require_current(new, create=True, upgrade=False)
        finally:
            new.close()

    prepare_file(database.path, create=create, make=make, busy_timeout_s=busy_timeout_s)
