"""The tables, one file for each noun."""

from tunefarm_services.store.tables.artifact import ArtifactTable
from tunefarm_services.store.tables.device import DeviceClassTable, DeviceTable
from tunefarm_services.store.tables.event import EventTable
from tunefarm_services.store.tables.exploration import ExplorationTable
from tunefarm_services.store.tables.job import JobLabelTable, JobTable, TaskTable
from tunefarm_services.store.tables.metadata import Table
from tunefarm_services.store.tables.model_snapshot import ModelSnapshotTable
from tunefarm_services.store.tables.record import RecordTable
from tunefarm_services.store.tables.target import TargetTable
from tunefarm_services.store.tables.trial import DispatchTable, MeasurementTable, TrialTable
from tunefarm_services.store.tables.workload import WorkloadTable

__all__ = [
    "ArtifactTable",
    "DeviceClassTable",
    "DeviceTable",
    "DispatchTable",
    "EventTable",
    "ExplorationTable",
    "JobLabelTable",
    "JobTable",
    "MeasurementTable",
    "ModelSnapshotTable",
    "RecordTable",
    "Table",
    "TargetTable",
    "TaskTable",
    "TrialTable",
    "WorkloadTable",
]
