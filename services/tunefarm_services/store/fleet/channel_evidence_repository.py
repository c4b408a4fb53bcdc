"""What the gate knows of a rollout, for people."""

from collections import Counter
from collections.abc import Sequence

from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_schemas.views.fleet import ChannelEvidence
from tunefarm_services.fleet.gate import StageDevice, failure_of, is_outstanding, judged
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.fleet.rollout_repository import RolloutRepository
from tunefarm_services.store.fleet.stage_rows import rows_of, stage_devices
from tunefarm_services.store.store_error import NotFound


class ChannelEvidenceRepository(Repository):
    """Reads what the gate reads, and changes nothing."""

    def of_channel(self, tenant: str, channel: str, now_s: float) -> ChannelEvidence:
        """The evidence about the channel's release at ``now_s``, seconds since the Unix epoch. Raises NotFound."""
        followed = RolloutRepository(self._database, self._blobs).followed(tenant, channel)
        if followed is None:
            raise NotFound("channel", channel)
        document, rollout = followed
        with self._database.reading() as connection:
            rows = rows_of(connection, tenant, document)
            devices = stage_devices(rows, document, rollout)
        verdict = judged(document.gate, devices, now_s)
        return ChannelEvidence(
            channel=channel,
            release=rollout.release,
            **_counts(document.gate, devices, now_s),
            failures=dict(Counter(found for each in devices if (found := failure_of(each, document.gate, now_s)))),
            verdict=verdict.action,
            verdict_reason=verdict.reason,
            by_release=dict(Counter(row.running or "" for row in rows)),
        )


def _counts(gate: GatePolicy, devices: Sequence[StageDevice], now_s: float) -> dict[str, int]:
    fine = [device for device in devices if failure_of(device, gate, now_s) is None]
    reporting = [(device.field, device.reference) for device in fine if device.field is not None]
    pairs = [(field, reference) for field, reference in reporting if reference is not None]
    factor = 1 + gate.tolerance
    return {
        "devices": len(devices),
        "heard": sum(device.was_heard for device in devices),
        "with_latency": len(reporting),
        "compared": len(pairs),
        "within_p50": sum(field.p50_s <= factor * reference.p50_s for field, reference in pairs),
        "within_p95": sum(field.p95_s <= factor * reference.p95_s for field, reference in pairs),
        "outstanding": sum(is_outstanding(device, gate, now_s) for device in fine),
    }
