"""Tables of edge devices: enrolment, reports, channels, rollouts, retune policies, and who changed them."""

from tunefarm_services.store.tables.fleet.edge_device import EdgeDeviceTable, EnrolmentCodeTable
from tunefarm_services.store.tables.fleet.edge_report import EdgeEvidenceTable, EdgeReportTable
from tunefarm_services.store.tables.fleet.rollout import (
    ChannelDocumentTable,
    FleetAuditTable,
    RetunePolicyTable,
    RetuneTable,
    RolloutTable,
)

__all__ = [
    "ChannelDocumentTable",
    "EdgeDeviceTable",
    "EdgeEvidenceTable",
    "EdgeReportTable",
    "EnrolmentCodeTable",
    "FleetAuditTable",
    "RetunePolicyTable",
    "RetuneTable",
    "RolloutTable",
]
