"""The store: all data that tunefarm keeps."""

from pathlib import Path
from typing import Self

from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.catalog.device_repository import DeviceRepository
from tunefarm_services.store.catalog.garbage import GarbageCollector
from tunefarm_services.store.catalog.input_example_repository import InputExampleRepository
from tunefarm_services.store.catalog.lane_history_repository import LaneHistoryRepository
from tunefarm_services.store.catalog.lane_repository import LaneRepository
from tunefarm_services.store.catalog.target_repository import TargetRepository
from tunefarm_services.store.catalog.upload_repository import UploadRepository
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.database.schema_revision import NEEDED, require_current, revision_of, upgrade_to
from tunefarm_services.store.database.sqlite_file import prepare_file
from tunefarm_services.store.fleet.audit_repository import FleetAuditRepository
from tunefarm_services.store.fleet.channel_evidence_repository import ChannelEvidenceRepository
from tunefarm_services.store.fleet.edge_device_repository import EdgeDeviceRepository
from tunefarm_services.store.fleet.edge_report_repository import EdgeReportRepository
from tunefarm_services.store.fleet.enrolment_repository import EnrolmentRepository
from tunefarm_services.store.fleet.fleet_overview import FleetOverviewRepository
from tunefarm_services.store.fleet.polling_repository import PollingRepository
from tunefarm_services.store.fleet.retune_repository import RetuneRepository
from tunefarm_services.store.fleet.rollout_repository import RolloutRepository
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.job_model_repository import JobModelRepository
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.jobs.job_request_repository import JobRequestRepository
from tunefarm_services.store.jobs.lease_repository import LeaseRepository
from tunefarm_services.store.jobs.overview_repository import OverviewRepository
from tunefarm_services.store.jobs.queue_repository import QueueRepository
from tunefarm_services.store.jobs.usage_repository import UsageRepository
from tunefarm_services.store.records.artifact_repository import ArtifactRepository
from tunefarm_services.store.records.best_record_repository import BestRecordRepository
from tunefarm_services.store.records.bundle_repository import BundleRepository
from tunefarm_services.store.records.record_repository import RecordRepository
from tunefarm_services.store.releases.release_pruning import ReleasePruning
from tunefarm_services.store.releases.release_repository import ReleaseRepository
from tunefarm_services.store.sharing.shared_explorations import SharedExplorations
from tunefarm_services.store.tenants.idempotency_key_repository import IdempotencyKeyRepository
from tunefarm_services.store.tenants.sharing_group_repository import SharingGroupRepository
from tunefarm_services.store.tenants.token_repository import TokenRepository
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository
from tunefarm_services.store.trials.measurement_repository import MeasurementRepository
from tunefarm_services.store.trials.model_repository import ModelRepository
from tunefarm_services.store.trials.point_repository import PointRepository
from tunefarm_services.store.trials.sample_repository import SampleRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository
from tunefarm_services.store.upkeep.inspection import Inspection
from tunefarm_services.store.upkeep.retention import Retention


class Store:
    """All data that tunefarm keeps, in one ``database`` and one store of ``blobs``, with a repository for each noun.

    May be used from several threads. When a method returns, its changes are committed and survive a kill. When it
    raises, it has changed no row. Every method may raise StoreUnavailable.
    """

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self.database = database
        self.blobs = blobs
        self.workloads = WorkloadRepository(database, blobs)
        self.targets = TargetRepository(database, blobs)
        self.devices = DeviceRepository(database, blobs)
        self.lanes = LaneRepository(database, blobs)
        self.lane_history = LaneHistoryRepository(database, blobs)
        self.uploads = UploadRepository(database, blobs)
        self.input_examples = InputExampleRepository(database, blobs)
        self.jobs = JobRepository(database, blobs)
        self.job_models = JobModelRepository(database, blobs)
        self.job_requests = JobRequestRepository(database, blobs)
        self.queue = QueueRepository(database, blobs)
        self.leases = LeaseRepository(database, blobs)
        self.events = EventRepository(database, blobs)
        self.overview = OverviewRepository(database, blobs)
        self.usage = UsageRepository(database, blobs)
        self.explorations = ExplorationRepository(database, blobs)
        self.trials = TrialRepository(database, blobs)
        self.measurements = MeasurementRepository(database, blobs)
        self.models = ModelRepository(database, blobs)
        self.points = PointRepository(database, blobs)
        self.samples = SampleRepository(database, blobs)
        self.shared_explorations = SharedExplorations(database, blobs)
        self.records = RecordRepository(database, blobs)
        self.best_records = BestRecordRepository(database, blobs)
        self.artifacts = ArtifactRepository(database, blobs)
        self.bundles = BundleRepository(database, blobs)
        self.releases = ReleaseRepository(database, blobs)
        self.release_pruning = ReleasePruning(database, blobs)
        self.tokens = TokenRepository(database, blobs)
        self.sharing_groups = SharingGroupRepository(database, blobs)
        self.idempotency_keys = IdempotencyKeyRepository(database, blobs)
        self.enrolments = EnrolmentRepository(database, blobs)
        self.edge_devices = EdgeDeviceRepository(database, blobs)
        self.edge_reports = EdgeReportRepository(database, blobs)
        self.polling = PollingRepository(database, blobs)
        self.rollouts = RolloutRepository(database, blobs)
        self.retunes = RetuneRepository(database, blobs)
        self.channel_evidence = ChannelEvidenceRepository(database, blobs)
        self.fleet_audit = FleetAuditRepository(database, blobs)
        self.fleet_overview = FleetOverviewRepository(database, blobs)
        self.garbage = GarbageCollector(database, blobs)
        self.retention = Retention(database, blobs)
        self.inspection = Inspection(database, blobs)

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
            blob_root: a folder or an object store's URL.
            create: create a missing database and folder.
            upgrade: migrate an older database instead of refusing it.
            busy_timeout_s: how long to wait for another process's write before giving up, in seconds.

        Raises:
            DatabaseOutdated: the database has an older schema; the message names the command that migrates it.
            DatabaseTooNew: a newer tunefarm wrote it.
            StoreUnavailable: the database is unreachable, full, or another program's.
            BadInput: a URL is invalid.
        """
        database = Database(url, busy_timeout_s=busy_timeout_s)
        try:
            # Check an object store before creating a database; create a folder after it.
            blobs = BlobStore(blob_root) if "://" in str(blob_root) else None
            _prepare_file(database, create=create, busy_timeout_s=busy_timeout_s)
            require_current(database, create=create, upgrade=upgrade)
            return cls(database, blobs or BlobStore(blob_root))
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self.tokens.settle()
        self.database.close()

    def revision(self) -> str | None:
        """The schema revision of the database."""
        with self.database.reading() as connection:
            return revision_of(connection)

    def upgrade(self) -> None:
        """Migrate to the revision that this version needs. To open an older database, use ``upgrade=True`` instead."""
        upgrade_to(self.database, NEEDED)


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
