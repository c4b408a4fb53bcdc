"""What devices report."""

import statistics
from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, case, delete, select, tuple_, update

from tunefarm_schemas.edge.release import ChannelDocument, Release
from tunefarm_schemas.edge.report import MAX_DROPPED, EdgeReport, EdgeReports, InstallReport
from tunefarm_schemas.views.fleet import EdgeDeviceView, FieldLatency
from tunefarm_services.fleet.evidence import Evidence, drifts, measured
from tunefarm_services.fleet.fit import fitting_variant
from tunefarm_services.fleet.gate import Quantiles
from tunefarm_services.store.database.insert_once import insert_into, insert_once
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.fleet.edge_device_repository import facts_of
from tunefarm_services.store.jobs.event_repository import append_event
from tunefarm_services.store.stored import TENANT_STREAM
from tunefarm_services.store.tables import EdgeDeviceTable, EdgeEvidenceTable, EdgeReportTable

KEPT_PER_DEVICE: Final = 2000
"""Reports of a device beyond these are deleted, the oldest first. What follows from them stays."""

_AT_ONCE: Final = 1000
_KEY: Final = (EdgeReportTable.tenant, EdgeReportTable.edge_device_id, EdgeReportTable.report_id)
OLD: Final = select(*_KEY).where(EdgeReportTable.received_s < bindparam("before_s")).limit(_AT_ONCE)

_EVIDENCE: Final = select(EdgeEvidenceTable).where(
    EdgeEvidenceTable.tenant == bindparam("tenant"),
    EdgeEvidenceTable.edge_device_id == bindparam("edge_device_id"),
    EdgeEvidenceTable.release == bindparam("release"),
)
_CHANGE_DEVICE: Final = update(EdgeDeviceTable).where(
    EdgeDeviceTable.tenant == bindparam("of_tenant"), EdgeDeviceTable.edge_device_id == bindparam("of_device")
)
_OF_DEVICE: Final = (
    EdgeReportTable.tenant == bindparam("of_tenant"),
    EdgeReportTable.edge_device_id == bindparam("of_device"),
)
SURPLUS: Final = (
    select(EdgeReportTable.report_id)
    .where(*_OF_DEVICE)
    .order_by(EdgeReportTable.received_s.desc(), EdgeReportTable.report_id)
    .limit(KEPT_PER_DEVICE)
    .offset(KEPT_PER_DEVICE)
)
_FIELD: Final = (
    select(EdgeEvidenceTable.runs, EdgeEvidenceTable.p50_s, EdgeEvidenceTable.p95_s, EdgeEvidenceTable.is_drifting)
    .add_columns(*(column for column in EdgeDeviceTable.__table__.columns if column.name != "failure"))
    .join(
        EdgeDeviceTable,
        (EdgeDeviceTable.tenant == EdgeEvidenceTable.tenant)
        & (EdgeDeviceTable.edge_device_id == EdgeEvidenceTable.edge_device_id),
    )
    .where(
        EdgeEvidenceTable.tenant == bindparam("tenant"),
        EdgeEvidenceTable.release == bindparam("release"),
        EdgeEvidenceTable.p50_s.is_not(None),
    )
)
_RUNNING: Final = _FIELD.where(
    EdgeDeviceTable.channel == bindparam("channel"),
    EdgeDeviceTable.running == bindparam("release"),
    EdgeDeviceTable.revoked_s.is_(None),
    EdgeEvidenceTable.heard_s >= bindparam("since_s"),
)


class EdgeReportRepository(Repository):
    """Reports of devices: claims about the field, which are never measurements."""

    @retried
    def add(
        self, tenant: str, device: EdgeDeviceView, reports: EdgeReports, document: ChannelDocument | None, now_s: float
    ) -> int:
        """Store the reports that are new and add them up; return how many were.

        ``document`` is that of the device's channel. A device that becomes slower than its manifest permits raises the
        event ``latency_drift``.
        """
        with self._database.writing() as connection:
            of_device = {"of_tenant": tenant, "of_device": device.edge_device_id}
            # The first statement locks the device's row, so that two requests of one device take turns.
            before, most_before = EdgeDeviceTable.dropped_reports, MAX_DROPPED - reports.dropped
            dropped = case((before > most_before, MAX_DROPPED), else_=before + reports.dropped)
            connection.execute(_CHANGE_DEVICE.values(dropped_reports=dropped), of_device)
            new = [each for each in reports.reports if _is_new(connection, tenant, device, each, now_s)]
            for release in dict.fromkeys(each.body.release for each in new):
                of_release = [each for each in new if each.body.release == release]
                self._sum_up(connection, tenant, device, release, of_release, document, now_s)
            installs = [each.body for each in new if isinstance(each.body, InstallReport)]
            if installs:
                connection.execute(_CHANGE_DEVICE.values(_after(installs[-1])), of_device)
            surplus = connection.execute(SURPLUS, of_device).scalars().all()
            if surplus:
                old = delete(EdgeReportTable).where(*_OF_DEVICE, EdgeReportTable.report_id.in_(surplus))
                connection.execute(old, of_device)
        return len(new)

    def field_latency(
        self,
        tenant: str,
        release: str,
        documents: Sequence[ChannelDocument],
        manifests: Collection[str] | None = None,
    ) -> FieldLatency:
        """The latencies of a release over the devices that reported some, beside those of its manifests.

        With ``manifests``, digests of bundles' manifests, only over the devices that these bundles are for.
        """
        named = {each.name: each for document in documents for each in (document.current, document.previous) if each}
        with self._database.reading() as connection:
            rows = connection.execute(_FIELD, {"tenant": tenant, "release": release}).all()
        variants = [fitting_variant(named[release], facts_of(row)) for row in rows] if release in named else []
        if manifests is not None:
            pairs = list(zip(rows, variants, strict=False))
            pairs = [pair for pair in pairs if not isinstance(pair[1], str) and pair[1].manifest.digest in manifests]
            rows, variants = [row for row, _ in pairs], [variant for _, variant in pairs]
        if not rows:
            return FieldLatency(release=release, devices=0, runs=0)
        references = [None if isinstance(variant, str) else measured(variant) for variant in variants]
        latencies = [
            (row.p50_s, known.p50_s) for row, known in zip(rows, references, strict=False) if known is not None
        ]
        return FieldLatency(
            release=release,
            devices=len(rows),
            runs=sum(row.runs for row in rows),
            p50_s=statistics.median(row.p50_s for row in rows),
            p50_of_slowest_tenth_s=_ninetieth([row.p50_s for row in rows]),
            p95_s=statistics.median(row.p95_s for row in rows),
            p95_of_slowest_tenth_s=_ninetieth([row.p95_s for row in rows]),
            compared=len(latencies),
            expected_p50_s=statistics.median(expected for _, expected in latencies) if latencies else None,
            median_ratio=statistics.median(field / expected for field, expected in latencies) if latencies else None,
            drifting=sum(row.is_drifting for row in rows),
        )

    def ratios(self, tenant: str, channel: str, release: Release, since_s: float) -> dict[str, list[float]]:
        """The median latency of devices divided by that of their manifest, by the digest of that manifest.

        Of the channel's devices that run the release and reported since a time, those with a measured manifest.
        """
        values = {"tenant": tenant, "channel": channel, "release": release.name, "since_s": since_s}
        with self._database.reading() as connection:
            rows = connection.execute(_RUNNING, values).all()
        found: dict[str, list[float]] = {}
        for row in rows:
            variant = fitting_variant(release, facts_of(row))
            expected = None if isinstance(variant, str) else measured(variant)
            if not isinstance(variant, str) and expected is not None:
                found.setdefault(variant.manifest.digest, []).append(row.p50_s / expected.p50_s)
        return found

    def delete_older(self, before_s: float) -> int:
        """Delete reports that arrived before a time, in small transactions; return how many. Their sums stay."""
        removed = 0
        while batch := self._delete_some_older(before_s):
            removed += batch
        return removed

    @retried
    def _delete_some_older(self, before_s: float) -> int:
        with self._database.writing() as connection:
            keys = [tuple(row) for row in connection.execute(OLD, {"before_s": before_s})]
            if not keys:
                return 0
            connection.execute(delete(EdgeReportTable).where(tuple_(*_KEY).in_(keys)))
            return len(keys)

    def _sum_up(
        self,
        connection: Connection,
        tenant: str,
        device: EdgeDeviceView,
        release: str,
        reports: Sequence[EdgeReport],
        document: ChannelDocument | None,
        now_s: float,
    ) -> None:
        key = {"tenant": tenant, "edge_device_id": device.edge_device_id, "release": release}
        row = connection.execute(_EVIDENCE, key).one_or_none()
        evidence, was_drifting = Evidence(), False
        if row is not None:
            quantiles = None if row.p50_s is None else Quantiles(row.p50_s, row.p95_s)
            evidence, was_drifting = Evidence(row.failure, row.runs, quantiles), row.is_drifting
        for report in reports:
            evidence = evidence.with_report(report.body)
        reference = None if document is None else _reference(document, release, device)
        field = evidence.quantiles
        is_drifting = bool(document and field and reference and drifts(field, reference, document.gate.tolerance))
        values = {
            "heard_s": now_s,
            "failure": evidence.failure,
            "runs": evidence.runs,
            "p50_s": None if field is None else field.p50_s,
            "p95_s": None if field is None else field.p95_s,
            "is_drifting": is_drifting,
        }
        statement = insert_into(connection, EdgeEvidenceTable).on_conflict_do_update(
            index_elements=["tenant", "edge_device_id", "release"], set_=values
        )
        connection.execute(statement, key | values)
        if is_drifting and not was_drifting and field and reference:
            data: dict[str, object] = {"edge_device_id": device.edge_device_id, "release": release}
            seconds = {"p50_s": field.p50_s, "p95_s": field.p95_s, "expected_p50_s": reference.p50_s}
            append_event(connection, tenant, TENANT_STREAM, "latency_drift", data | seconds)


def _after(installation: InstallReport) -> dict[str, object]:
    """What is known of a device after its latest installation, minutes before its next poll says so."""
    values: dict[str, object] = {"failure": installation.failure}
    running = installation.release if installation.failure is None else installation.rolled_back_to
    return values if running is None else values | {"running": running}


def _is_new(connection: Connection, tenant: str, device: EdgeDeviceView, report: EdgeReport, now_s: float) -> bool:
    row = {
        "tenant": tenant,
        "edge_device_id": device.edge_device_id,
        "report_id": report.report_id,
        "received_s": now_s,
        "at": report.at,
        "release": report.body.release,
        "body": report.body.model_dump_json(),
    }
    return connection.execute(insert_once(connection, EdgeReportTable), row).rowcount > 0


def _reference(document: ChannelDocument, release: str, device: EdgeDeviceView) -> Quantiles | None:
    """The latencies that the manifest of a device's variant promises."""
    for each in (document.current, document.previous):
        if each is not None and each.name == release:
            variant = fitting_variant(each, device.facts)
            return None if isinstance(variant, str) else measured(variant)
    return None


def _ninetieth(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]
