"""The tables."""

from tunefarm_services.store.tables.artifact import ArtifactTable, BundleTable
from tunefarm_services.store.tables.device import (
    DeviceClassTable,
    DeviceTable,
    LaneChangeTable,
    LaneTable,
    ReferenceSampleTable,
)
from tunefarm_services.store.tables.exploration import ExplorationTable, JobExplorationTable, ModelSnapshotTable
from tunefarm_services.store.tables.fleet import (
    ChannelDocumentTable,
    EdgeDeviceTable,
    EdgeEvidenceTable,
    EdgeReportTable,
    EnrolmentCodeTable,
    FleetAuditTable,
    RetunePolicyTable,
    RetuneTable,
    RolloutTable,
)
from tunefarm_services.store.tables.job import EventTable, JobLabelTable, JobTable, TaskTable
from tunefarm_services.store.tables.metadata import Table
from tunefarm_services.store.tables.record import BestRecordTable, RecordTable
from tunefarm_services.store.tables.releases.release import (
    ReleaseFilePieceTable,
    ReleaseFileTable,
    ReleaseMetadataTable,
    ReleasePublicationTable,
    ReleaseTargetTable,
)
from tunefarm_services.store.tables.sharing import SharingTenantTable
from tunefarm_services.store.tables.token import IdempotencyKeyTable, ServerSecretTable, TokenTable
from tunefarm_services.store.tables.trial import DispatchTable, MeasurementTable, TrialTable
from tunefarm_services.store.tables.upload import UploadPieceTable, UploadTable
from tunefarm_services.store.tables.usage import TenantShareTable, UsageTable
from tunefarm_services.store.tables.workload import TargetTable, WorkloadTable

__all__ = [
    "ArtifactTable",
    "BestRecordTable",
    "BundleTable",
    "ChannelDocumentTable",
    "DeviceClassTable",
    "DeviceTable",
    "DispatchTable",
    "EdgeDeviceTable",
    "EdgeEvidenceTable",
    "EdgeReportTable",
    "EnrolmentCodeTable",
    "EventTable",
    "ExplorationTable",
    "FleetAuditTable",
    "IdempotencyKeyTable",
    "JobExplorationTable",
    "JobLabelTable",
    "JobTable",
    "LaneChangeTable",
    "LaneTable",
    "MeasurementTable",
    "ModelSnapshotTable",
    "RecordTable",
    "ReferenceSampleTable",
    "ReleaseFilePieceTable",
    "ReleaseFileTable",
    "ReleaseMetadataTable",
    "ReleasePublicationTable",
    "ReleaseTargetTable",
    "RetunePolicyTable",
    "RetuneTable",
    "RolloutTable",
    "ServerSecretTable",
    "SharingTenantTable",
    "Table",
    "TargetTable",
    "TaskTable",
    "TenantShareTable",
    "TokenTable",
    "TrialTable",
    "UploadPieceTable",
    "UploadTable",
    "UsageTable",
    "WorkloadTable",
]
