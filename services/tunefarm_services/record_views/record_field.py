"""The latency of a record in the field: of the releases whose bundles have its schedule."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tunefarm_schemas.edge.release import ChannelDocument, Release, ReleaseVariant
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.record import RecordInField, ReleaseInField
from tunefarm_services.store import BlobDamaged, BlobMissing, NotFound, Store

MAX_MANIFEST_BYTES: Final = 16 << 20
MAX_MANIFESTS: Final = 1000
"""Of one answer."""
KEPT_MANIFESTS: Final = 10_000


class _Function(BaseModel):
    record_id: str | None = None
    calls: int = Field(default=0, ge=0)


class _Manifest(BaseModel):
    """What a bundle's manifest says of records. Manifests of other versions have other fields beside these."""

    model_config = ConfigDict(extra="ignore")

    functions: tuple[_Function, ...] = ()


@dataclass(frozen=True)
class _Use:
    """A release with the variants that have the record, and how often a run of each calls its functions."""

    release: Release
    calls: Mapping[str, int]

    def variant(self) -> ReleaseVariant:
        """The best variant that has the record."""
        return next(each for each in self.release.variants if each.manifest.digest in self.calls)


class RecordFields:
    """Finds records in the bundles that channels announce, and what devices report of them. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._calls: OrderedDict[tuple[str, str], Mapping[str, int]] = OrderedDict()
        """Calls of each record, by tenant and digest of the manifest."""

    def get(self, tenant: str, record_id: str) -> RecordInField:
        """The record's latency as measured and as reported. Raises NotFound."""
        record = self._store.records.get(tenant, record_id)
        documents = self._store.rollouts.documents(tenant)
        uses, unread = self._uses(tenant, record.record_id, documents)
        return RecordInField(
            record_id=record.record_id,
            latency_s=record.latency_s,
            interval_s=record.interval_s,
            releases=tuple(self._release(tenant, record, use, documents) for use in uses),
            unread=unread,
        )

    def record_ids(self, tenant: str, variant: ReleaseVariant) -> frozenset[str]:
        """The records that a bundle has schedules of, as its manifest says; none if that cannot be read.

        Claims of its publisher: none of them need exist.
        """
        return frozenset(self._calls_of(tenant, variant) or ())

    def _uses(self, tenant: str, record_id: str, documents: Sequence[ChannelDocument]) -> tuple[list[_Use], int]:
        uses: list[_Use] = []
        left, unread = MAX_MANIFESTS, 0
        for release in {each.name: each for each in _releases(documents)}.values():
            found: dict[str, int] = {}
            for variant in release.variants:
                calls = self._calls_of(tenant, variant) if left > 0 else None
                left -= 1
                unread += calls is None
                if calls and record_id in calls:
                    found[variant.manifest.digest] = calls[record_id]
            if found:
                uses.append(_Use(release, found))
        return uses, unread

    def _release(
        self, tenant: str, record: TuningRecord, use: _Use, documents: Sequence[ChannelDocument]
    ) -> ReleaseInField:
        variant, name = use.variant(), use.release.name
        calls, measured_s = use.calls[variant.manifest.digest], variant.latency_p50_s
        return ReleaseInField(
            release=name,
            model=use.release.model,
            channels=tuple(each.channel for each in documents if name in {r.name for r in _releases([each])}),
            calls=calls,
            measured_p50_s=measured_s,
            measured_p95_s=variant.latency_p95_s,
            estimated_share=None if measured_s is None else min(1.0, calls * record.latency_s / measured_s),
            field=self._store.edge_reports.field_latency(tenant, name, documents, use.calls.keys()),
        )

    def _calls_of(self, tenant: str, variant: ReleaseVariant) -> Mapping[str, int] | None:
        """Calls in one run, by record; None if the manifest cannot be read."""
        key = (tenant, variant.manifest.digest)
        with self._lock:
            known = self._calls.get(key)
        if known is not None:
            return known
        manifest = self._manifest(tenant, variant)
        if manifest is None:
            return None
        calls: dict[str, int] = {}
        for each in manifest.functions:
            if each.record_id is not None:
                calls[each.record_id] = calls.get(each.record_id, 0) + each.calls
        with self._lock:
            self._calls[key] = calls
            while len(self._calls) > KEPT_MANIFESTS:
                self._calls.popitem(last=False)
        return calls

    def _manifest(self, tenant: str, variant: ReleaseVariant) -> _Manifest | None:
        try:
            file = self._store.releases.file(tenant, variant.manifest.digest)
            if not file.is_complete or file.size_bytes > MAX_MANIFEST_BYTES:
                return None
            content = b"".join(self._store.releases.read(tenant, file.digest, 0, file.size_bytes))
            return _Manifest.model_validate_json(content)
        except (NotFound, BlobMissing, BlobDamaged, ValidationError):
            return None


def _releases(documents: Sequence[ChannelDocument]) -> Iterator[Release]:
    """The releases that channels announce, with repetitions; of a name, the current one of a channel comes last."""
    previous = (each.previous for each in documents if each.previous is not None)
    return chain(previous, (each.current for each in documents))
