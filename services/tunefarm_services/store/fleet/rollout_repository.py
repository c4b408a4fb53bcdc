"""Channels and the rollouts of their releases."""

from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_services.fleet.gate import judged
from tunefarm_services.fleet.rollout import WITHDRAWN, Rollout, RolloutState, RolloutVerb, refusal
from tunefarm_services.fleet.stage import ALL, cutoff
from tunefarm_services.store.database.insert_once import insert_into
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.fleet.audit_repository import GATE_PREFIX, Actor, record_change
from tunefarm_services.store.fleet.stage_rows import numbers, rows_of, stage_devices
from tunefarm_services.store.jobs.event_repository import append_event
from tunefarm_services.store.store_error import NotFound, RolloutRefused
from tunefarm_services.store.stored import TENANT_STREAM
from tunefarm_services.store.tables import ChannelDocumentTable, EdgeDeviceTable, EdgeEvidenceTable, RolloutTable

EVALUATE_EVERY_S: Final = 10.0
"""Least time between two evaluations of a rollout, each of which reads all devices of its channel."""

_DOCUMENT: Final = select(ChannelDocumentTable.document).where(
    ChannelDocumentTable.tenant == bindparam("tenant"), ChannelDocumentTable.channel == bindparam("channel")
)
_DOCUMENTS: Final = select(ChannelDocumentTable.document).where(ChannelDocumentTable.tenant == bindparam("tenant"))
_LATEST: Final = (
    select(RolloutTable)
    .where(RolloutTable.tenant == bindparam("tenant"), RolloutTable.channel == bindparam("channel"))
    .order_by(RolloutTable.sequence.desc())
    .limit(1)
)
_STATE_OF_RELEASE: Final = (
    select(RolloutTable.state)
    .where(
        RolloutTable.tenant == bindparam("tenant"),
        RolloutTable.channel == bindparam("channel"),
        RolloutTable.release == bindparam("release"),
    )
    .order_by(RolloutTable.sequence.desc())
    .limit(1)
)
_OF_ROLLOUT: Final = (
    RolloutTable.tenant == bindparam("of_tenant"),
    RolloutTable.channel == bindparam("of_channel"),
    RolloutTable.sequence == bindparam("of_sequence"),
)
_CHANGE: Final = update(RolloutTable).where(*_OF_ROLLOUT, RolloutTable.version == bindparam("of_version"))
_CLAIM: Final = update(RolloutTable).where(
    *_OF_ROLLOUT, RolloutTable.state == RolloutState.RUNNING.value, RolloutTable.evaluated_s <= bindparam("due_s")
)
_RUNNING: Final = select(RolloutTable.tenant, RolloutTable.channel).where(
    RolloutTable.state == RolloutState.RUNNING.value, RolloutTable.evaluated_s <= bindparam("due_s")
)
_AFTER_VERB: Final = {
    RolloutVerb.PAUSE: RolloutState.PAUSED,
    RolloutVerb.RESUME: RolloutState.RUNNING,
    RolloutVerb.ROLL_BACK: RolloutState.ROLLED_BACK,
    RolloutVerb.STOP: RolloutState.HALTED,
}


class RolloutRepository(Repository):
    """Channel documents as published last, and how far the release of each has come."""

    def document(self, tenant: str, channel: str) -> ChannelDocument:
        """The channel's document as announced last. Raises NotFound."""
        with self._database.reading() as connection:
            return _document(connection, tenant, channel)

    def documents(self, tenant: str) -> list[ChannelDocument]:
        """The documents of all channels, by name, in the order of Python: databases have orders of languages."""
        with self._database.reading() as connection:
            stored = connection.execute(_DOCUMENTS, {"tenant": tenant}).scalars()
            found = [ChannelDocument.model_validate_json(document) for document in stored]
        return sorted(found, key=lambda document: document.channel)

    def latest(self, tenant: str, channel: str) -> Rollout:
        """The rollout of the channel's release. Raises NotFound."""
        with self._database.reading() as connection:
            return _latest(connection, tenant, channel)

    def followed(self, tenant: str, channel: str) -> tuple[ChannelDocument, Rollout] | None:
        """Document and rollout of a channel, as of one moment; None before its first publication."""
        with self._database.reading() as connection:
            try:
                return _document(connection, tenant, channel), _latest(connection, tenant, channel)
            except NotFound:
                return None

    @retried
    def announce(self, actor: Actor, document: ChannelDocument) -> Rollout:
        """Take over a published document, whose signatures the caller has verified.

        A new release begins its rollout in the first stage. A newer document with the same release, such as one that
        is signed again before it expires, changes nothing else. Repeating it has no effect.

        Raises:
            RolloutRefused: a document with the same or a higher sequence is stored.
        """
        with self._database.writing() as connection:
            return announce_document(connection, actor, document)

    @retried
    def apply(
        self, actor: Actor, channel: str, verb: RolloutVerb, reason: str, *, version: int | None = None
    ) -> Rollout:
        """Do what a person asks, and record it. Raises NotFound, RolloutRefused.

        ``version`` is that of the rollout as the person saw it: the request is refused if it has changed since.
        """
        with self._database.writing() as connection:
            document = _document(connection, actor.tenant, channel)
            rollout = _latest(connection, actor.tenant, channel, locked=True)
            if version is not None and version != rollout.version:
                raise RolloutRefused(f"The rollout of {rollout.release} has changed since. Look at it again.")
            if problem := refusal(rollout, verb, has_previous=document.previous is not None):
                raise RolloutRefused(problem)
            if verb is RolloutVerb.ADVANCE:
                changed = _advanced(connection, actor, document, rollout, reason)
            else:
                changed = rollout.model_copy(update={"state": _AFTER_VERB[verb], "reason": reason})
                if verb is RolloutVerb.RESUME:
                    # The time of the pause is not held against silent devices.
                    changed = changed.model_copy(update={"stage_began_s": actor.now_s})
            return _stored(connection, actor, rollout, changed, verb.value)

    def evaluate_due(self, now_s: float) -> int:
        """Evaluate every running rollout that is due; return how many changed. For a process without polls."""
        with self._database.reading() as connection:
            due = connection.execute(_RUNNING, {"due_s": now_s - EVALUATE_EVERY_S}).all()
        return sum(self.evaluate(tenant, channel, now_s) for tenant, channel in due)

    def evaluate(self, tenant: str, channel: str, now_s: float, *, known: Rollout | None = None) -> bool:
        """Let the gate judge the rollout if that is due; return whether it changed. ``known`` is it as last read.

        Any number of processes may call this at any time: one of them claims the evaluation, and its decision is
        stored only if the rollout has not changed since its rows were read. A process that is killed in between
        has decided nothing, and the next evaluation is due as soon as usual.
        """
        if not self._claimed(tenant, known or self.latest(tenant, channel), now_s):
            return False
        with self._database.reading() as connection:
            document = _document(connection, tenant, channel)
            rollout = _latest(connection, tenant, channel)
            devices = stage_devices(rows_of(connection, tenant, document), document, rollout)
        if rollout.release != document.current.name:
            return False
        verdict = judged(document.gate, devices, now_s)
        if verdict.action == "wait" and verdict.reason == rollout.reason:
            return False
        actor = Actor(tenant, None, now_s)
        return self.carry_out(actor, document, rollout, verdict.action, verdict.reason)

    @retried
    def _claimed(self, tenant: str, rollout: Rollout, now_s: float) -> bool:
        if rollout.state is not RolloutState.RUNNING or rollout.evaluated_s > now_s - EVALUATE_EVERY_S:
            return False
        with self._database.writing() as connection:
            values = _key(tenant, rollout) | {"due_s": now_s - EVALUATE_EVERY_S}
            return connection.execute(_CLAIM.values(evaluated_s=now_s), values).rowcount > 0

    @retried
    def carry_out(self, actor: Actor, document: ChannelDocument, rollout: Rollout, action: str, reason: str) -> bool:
        """Store a decision of the gate unless the rollout changed after it was read; return whether it changes now."""
        with self._database.writing() as connection:
            if _latest(connection, actor.tenant, rollout.channel, locked=True).version != rollout.version:
                return False
            if action == "wait":
                changed = rollout.model_copy(update={"reason": reason})
                connection.execute(_CHANGE.values(reason=reason), _key(actor.tenant, rollout, versioned=True))
                return False
            if action == "stop":
                changed = rollout.model_copy(update={"state": RolloutState.STOPPED, "reason": reason})
            else:
                changed = _advanced(connection, actor, document, rollout, reason)
            _stored(connection, actor, rollout, changed, f"{GATE_PREFIX}{action}")
            return True


def announce_document(connection: Connection, actor: Actor, document: ChannelDocument) -> Rollout:
    """Take over a published document within the caller's transaction. Raises RolloutRefused."""
    if not _is_taken_over(connection, actor.tenant, document):
        if _document(connection, actor.tenant, document.channel) == document:
            return _latest(connection, actor.tenant, document.channel)
        raise RolloutRefused(
            f"Channel {document.channel} already has a document of sequence {document.sequence} or later."
        )
    try:
        latest = _latest(connection, actor.tenant, document.channel)
    except NotFound:
        latest = None
    if latest is not None and latest.release == document.current.name:
        return latest
    _require_kept(connection, actor.tenant, document)
    _forget_evidence(connection, actor.tenant, document)
    begun = _begun(connection, actor, document)
    connection.execute(insert(RolloutTable), {"tenant": actor.tenant} | begun.model_dump())
    record_change(connection, actor, "announce", document.channel, f"{begun.release}, sequence {begun.sequence}")
    return begun


def _require_kept(connection: Connection, tenant: str, document: ChannelDocument) -> None:
    """Raise RolloutRefused if devices would return to a release that they were told to leave."""
    if document.previous is None:
        return
    name = {"tenant": tenant, "channel": document.channel, "release": document.previous.name}
    state = connection.execute(_STATE_OF_RELEASE, name).scalar()
    if state in WITHDRAWN:
        raise RolloutRefused(
            f"The rollout of {document.previous.name} in {document.channel} is {state}, so it cannot be the previous "
            f"release. Revoke it (tunefarm release revoke {document.previous.name}), then push."
        )


def _is_taken_over(connection: Connection, tenant: str, document: ChannelDocument) -> bool:
    """Store a document unless one of the same or a higher sequence is there."""
    statement = insert_into(connection, ChannelDocumentTable)
    newer = statement.on_conflict_do_update(
        index_elements=["tenant", "channel"],
        set_={name: statement.excluded[name] for name in ("sequence", "document")},
        where=ChannelDocumentTable.sequence < statement.excluded.sequence,
    ).returning(ChannelDocumentTable.sequence)
    values = {
        "tenant": tenant,
        "channel": document.channel,
        "sequence": document.sequence,
        "document": document.model_dump_json(),
    }
    return connection.execute(newer, values).first() is not None


def _forget_evidence(connection: Connection, tenant: str, document: ChannelDocument) -> None:
    """Forget what devices of the channel reported of the release in an earlier rollout of it."""
    of_channel = select(EdgeDeviceTable.edge_device_id).where(
        EdgeDeviceTable.tenant == tenant, EdgeDeviceTable.channel == document.channel
    )
    connection.execute(
        delete(EdgeEvidenceTable).where(
            EdgeEvidenceTable.tenant == tenant,
            EdgeEvidenceTable.release == document.current.name,
            EdgeEvidenceTable.edge_device_id.in_(of_channel),
        )
    )


def _begun(connection: Connection, actor: Actor, document: ChannelDocument) -> Rollout:
    return Rollout(
        channel=document.channel,
        sequence=document.sequence,
        release=document.current.name,
        state=RolloutState.RUNNING,
        stage=0,
        cutoff=_cutoff(connection, actor, document, 0),
        reason="",
        began_s=actor.now_s,
        stage_began_s=actor.now_s,
        evaluated_s=actor.now_s,
        version=0,
    )


def _advanced(
    connection: Connection, actor: Actor, document: ChannelDocument, rollout: Rollout, reason: str
) -> Rollout:
    """The rollout in its next stage, or finished after its last. Its devices stay in it."""
    stage = rollout.stage + 1
    if stage >= len(document.gate.stages_percent):
        changes: dict[str, object] = {"state": RolloutState.FINISHED, "cutoff": ALL}
    else:
        further = max(rollout.cutoff, _cutoff(connection, actor, document, stage))
        changes = {"stage": stage, "cutoff": further, "state": RolloutState.RUNNING}
    return rollout.model_copy(update=changes | {"reason": reason, "stage_began_s": actor.now_s})


def _cutoff(connection: Connection, actor: Actor, document: ChannelDocument, stage: int) -> float:
    rows = rows_of(connection, actor.tenant, document)
    return cutoff(numbers(rows, document, actor.now_s), document.gate.stages_percent[stage])


def _stored(connection: Connection, actor: Actor, old: Rollout, new: Rollout, action: str) -> Rollout:
    """Store a changed rollout with its entry in the audit log and its event."""
    new = new.model_copy(update={"version": old.version + 1})
    values = new.model_dump(mode="json", include={"state", "stage", "cutoff", "reason", "stage_began_s", "version"})
    connection.execute(_CHANGE.values(values), _key(actor.tenant, old, versioned=True))
    record_change(connection, actor, action, new.channel, new.reason)
    data = {"channel": new.channel, "release": new.release, "action": action, "state": new.state.value}
    append_event(connection, actor.tenant, TENANT_STREAM, "rollout", data | {"stage": new.stage, "reason": new.reason})
    return new


def _key(tenant: str, rollout: Rollout, *, versioned: bool = False) -> dict[str, object]:
    values = {"of_tenant": tenant, "of_channel": rollout.channel, "of_sequence": rollout.sequence}
    return values | ({"of_version": rollout.version} if versioned else {})


def _document(connection: Connection, tenant: str, channel: str) -> ChannelDocument:
    document = connection.execute(_DOCUMENT, {"tenant": tenant, "channel": channel}).scalar()
    if document is None:
        raise NotFound("channel", channel)
    return ChannelDocument.model_validate_json(document)


def _latest(connection: Connection, tenant: str, channel: str, *, locked: bool = False) -> Rollout:
    query = _LATEST.with_for_update() if locked else _LATEST
    row = connection.execute(query, {"tenant": tenant, "channel": channel}).one_or_none()
    if row is None:
        raise NotFound("channel", channel)
    return Rollout.model_validate({name: getattr(row, name) for name in Rollout.model_fields})
