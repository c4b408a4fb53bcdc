"""Polls of devices: what one needs to be answered, and what it says about the device."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, and_, bindparam, func, select, update
from sqlalchemy.orm import aliased

from tunefarm_schemas.edge.device import EdgePoll
from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.views.fleet import EdgeDeviceView
from tunefarm_services.fleet.rollout import Rollout
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.fleet.edge_device_repository import device_in
from tunefarm_services.store.fleet.enrolment_repository import fact_values
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import ChannelDocumentTable, EdgeDeviceTable, RolloutTable

_MAX_DOCUMENTS: Final = 256

_LATER: Final = aliased(RolloutTable)
_LATEST_SEQUENCE: Final = (
    select(func.max(_LATER.sequence))
    .where(_LATER.tenant == EdgeDeviceTable.tenant, _LATER.channel == EdgeDeviceTable.channel)
    .scalar_subquery()
)
_ROLLOUT: Final = tuple(
    getattr(RolloutTable, name).label(f"rollout_{name}") for name in Rollout.model_fields if name != "channel"
)
_OF_TOKEN: Final = (
    select(EdgeDeviceTable.__table__, ChannelDocumentTable.sequence.label("document_sequence"), *_ROLLOUT)
    .outerjoin(
        ChannelDocumentTable,
        and_(
            ChannelDocumentTable.tenant == EdgeDeviceTable.tenant,
            ChannelDocumentTable.channel == EdgeDeviceTable.channel,
        ),
    )
    .outerjoin(
        RolloutTable,
        and_(
            RolloutTable.tenant == EdgeDeviceTable.tenant,
            RolloutTable.channel == EdgeDeviceTable.channel,
            RolloutTable.sequence == _LATEST_SEQUENCE,
        ),
    )
    .where(EdgeDeviceTable.token_id == bindparam("token_id"))
)
_DOCUMENT: Final = select(ChannelDocumentTable.sequence, ChannelDocumentTable.document).where(
    ChannelDocumentTable.tenant == bindparam("tenant"), ChannelDocumentTable.channel == bindparam("channel")
)
_COLUMNS: Final = (
    "agent_version",
    "architecture",
    "cpu_features",
    "device_class_id",
    "free_bytes",
    "operating_system",
    "running",
    "runtime_abi",
    "seen_s",
    "sequence",
)
# An older poll may be stored after a newer one, by another process.
_STORE: Final = (
    update(EdgeDeviceTable)
    .where(
        EdgeDeviceTable.tenant == bindparam("of_tenant"),
        EdgeDeviceTable.edge_device_id == bindparam("of_device"),
        EdgeDeviceTable.seen_s <= bindparam("new_seen_s"),
    )
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS})
)


@dataclass(frozen=True, slots=True)
class PollingDevice:
    """A device that polls, with the document and the rollout of its channel; None before its first publication."""

    device: EdgeDeviceView
    followed: tuple[ChannelDocument, Rollout] | None


@dataclass(frozen=True, slots=True)
class StoredPoll:
    """A poll of a device. ``at_s`` is seconds since the Unix epoch."""

    tenant: str
    edge_device_id: str
    poll: EdgePoll
    at_s: float


class PollingRepository(Repository):
    """What polls read and write."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        super().__init__(database, blobs)
        self._documents: dict[tuple[str, str, int], ChannelDocument] = {}
        """By tenant, channel and sequence, which never change their content. Reading one takes as long as the rest."""
        self._lock = threading.Lock()

    def of_token(self, token_id: str) -> PollingDevice:
        """The device whose token this is. Raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_OF_TOKEN, {"token_id": token_id}).one_or_none()
            if row is None:
                raise NotFound("edge device with the token", token_id)
            device = device_in(row)
            if row.document_sequence is None or row.rollout_sequence is None:
                return PollingDevice(device, None)
            return PollingDevice(device, (self._document(connection, row), _rollout(row)))

    @retried
    def store(self, polls: Sequence[StoredPoll]) -> None:
        """Store what devices said, in one transaction."""
        rows = [_values(each) for each in polls]
        if rows:
            with self._database.writing() as connection:
                connection.execute(_STORE, rows)

    def _document(self, connection: Connection, row: AnyRow) -> ChannelDocument:
        with self._lock:
            known = self._documents.get((row.tenant, row.channel, row.document_sequence))
        if known is not None:
            return known
        found = connection.execute(_DOCUMENT, {"tenant": row.tenant, "channel": row.channel}).one()
        document = ChannelDocument.model_validate_json(found.document)
        with self._lock:
            if len(self._documents) >= _MAX_DOCUMENTS:
                self._documents.clear()
            self._documents[row.tenant, row.channel, found.sequence] = document
        return document


def _rollout(row: AnyRow) -> Rollout:
    values = {name: getattr(row, f"rollout_{name}") for name in Rollout.model_fields if name != "channel"}
    return Rollout.model_validate(values | {"channel": row.channel})


def _values(stored: StoredPoll) -> dict[str, object]:
    poll = stored.poll
    said = fact_values(poll.facts) | {"running": poll.running, "sequence": poll.sequence, "seen_s": stored.at_s}
    key: dict[str, object] = {"of_tenant": stored.tenant, "of_device": stored.edge_device_id}
    return key | {f"new_{name}": said[name] for name in _COLUMNS}
