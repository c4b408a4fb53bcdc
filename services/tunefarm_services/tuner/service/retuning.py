"""Opens jobs for records that the field contradicts, where the policy of a channel says so."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from tunefarm_schemas.edge.release import ChannelDocument, Release, ReleaseVariant
from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_services.fleet.retuning import CHANNEL_LABEL, RELEASE_LABEL, contradiction, retune_spec
from tunefarm_services.record_views.record_field import RecordFields
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.retune_repository import ChannelPolicy, Retune
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import NotFound, StoreError, StoreUnavailable

EVERY_S: Final = 60.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Retuner:
    """Compares the field with records. Any number of processes may do so at any time.

    Attributes:
        fields: which records bundles have.
        callees: external functions that the modules of a tenant may call.
    """

    store: Store
    fields: RecordFields
    callees: Mapping[str, tuple[str, ...]]

    def open_due(self, now_s: float) -> int:
        """Open the jobs that are due; return how many. Raises StoreUnavailable."""
        return sum(self._of_channel_or_none(each, now_s) for each in self.store.retunes.enabled())

    def _of_channel_or_none(self, channel: ChannelPolicy, now_s: float) -> int:
        """One damaged or missing object must not keep the other channels from being compared."""
        try:
            return self._of_channel(channel, now_s)
        except StoreUnavailable:
            raise
        except StoreError as error:
            log.warning("a channel is not retuned", tenant=channel.tenant, channel=channel.channel, reason=str(error))
            return 0

    def _of_channel(self, channel: ChannelPolicy, now_s: float) -> int:
        followed = self.store.rollouts.followed(channel.tenant, channel.channel)
        if followed is None:
            return 0
        document = followed[0]
        opened = 0
        for release, variant, ratios in self._reported(channel, document, now_s):
            for record in self._records(channel, variant, now_s):
                if reason := contradiction(record, ratios, document.gate):
                    opened += self._open(
                        channel, Retune(channel.channel, release.name, record.record_id, reason), now_s
                    )
        return opened

    def _reported(
        self, channel: ChannelPolicy, document: ChannelDocument, now_s: float
    ) -> Iterator[tuple[Release, ReleaseVariant, list[float]]]:
        for release in (document.current, document.previous):
            if release is None or release.name in document.revoked:
                continue
            since_s = now_s - document.gate.deadline_s
            ratios = self.store.edge_reports.ratios(channel.tenant, channel.channel, release, since_s)
            for variant in release.variants:
                if found := ratios.get(variant.manifest.digest):
                    yield release, variant, found

    def _records(self, channel: ChannelPolicy, variant: ReleaseVariant, now_s: float) -> Iterator[TuningRecord]:
        """The verified records of a variant that no job is open for."""
        for record_id in sorted(self.fields.record_ids(channel.tenant, variant)):
            if self.store.retunes.is_cooling(channel.tenant, record_id, channel.policy, now_s):
                continue
            try:
                record = self.store.records.get(channel.tenant, record_id)
            except NotFound:
                continue
            if record.status is RecordStatus.VERIFIED:
                yield record

    def _open(self, channel: ChannelPolicy, retune: Retune, now_s: float) -> int:
        tenant, policy = channel.tenant, channel.policy
        record = self.store.records.get(tenant, retune.record_id)
        name = self.store.workloads.stored(tenant, record.key.workload_id).name
        labels = {CHANNEL_LABEL: retune.channel, RELEASE_LABEL: retune.release}
        spec = retune_spec(record, name, policy, labels, self.callees.get(tenant, ()))
        job = self.store.retunes.open(Actor(tenant, None, now_s), retune, policy, spec)
        return 0 if job is None else 1
