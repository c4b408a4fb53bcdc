"""Retune policies of channels, and the jobs that they open."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, select, update

from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.tuning.job import Job, JobSpec
from tunefarm_services.store.database.insert_once import insert_into
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.fleet.audit_repository import RETUNE_ACTION, Actor, record_change
from tunefarm_services.store.jobs.event_repository import append_event
from tunefarm_services.store.jobs.job_repository import queue_job
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.stored import TENANT_STREAM
from tunefarm_services.store.tables import ChannelDocumentTable, RetunePolicyTable, RetuneTable

_KEY: Final = (RetunePolicyTable.tenant == bindparam("tenant"), RetunePolicyTable.channel == bindparam("channel"))
_POLICY: Final = select(RetunePolicyTable.policy).where(*_KEY)
_POLICIES: Final = select(RetunePolicyTable).order_by(RetunePolicyTable.tenant, RetunePolicyTable.channel)
_CHANNEL: Final = select(ChannelDocumentTable.sequence).where(
    ChannelDocumentTable.tenant == bindparam("tenant"), ChannelDocumentTable.channel == bindparam("channel")
)
_LATEST: Final = select(RetuneTable.opened_s).where(
    RetuneTable.tenant == bindparam("tenant"), RetuneTable.record_id == bindparam("record_id")
)


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """The policy of one tenant's channel."""

    tenant: str
    channel: str
    policy: RetunePolicy


@dataclass(frozen=True, slots=True)
class Retune:
    """Why a record is to be tuned again."""

    channel: str
    release: str
    record_id: str
    reason: str


class RetuneRepository(Repository):
    """Policies, and the latest job of each record that one opened."""

    def policy(self, tenant: str, channel: str) -> RetunePolicy:
        """The policy of a channel; the default one until it is set. Raises NotFound for a channel without documents."""
        with self._database.reading() as connection:
            key = {"tenant": tenant, "channel": channel}
            if connection.execute(_CHANNEL, key).one_or_none() is None:
                raise NotFound("channel", channel)
            found = connection.execute(_POLICY, key).scalar()
        return RetunePolicy() if found is None else RetunePolicy.model_validate_json(found)

    @retried
    def set_policy(self, actor: Actor, channel: str, policy: RetunePolicy, reason: str) -> RetunePolicy:
        """Replace the policy of a channel, with an entry in the audit log. Raises NotFound."""
        with self._database.writing() as connection:
            if connection.execute(_CHANNEL, {"tenant": actor.tenant, "channel": channel}).one_or_none() is None:
                raise NotFound("channel", channel)
            row = {"tenant": actor.tenant, "channel": channel, "policy": policy.model_dump_json()}
            statement = insert_into(connection, RetunePolicyTable)
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["tenant", "channel"], set_={"policy": statement.excluded.policy}
                ),
                row,
            )
            record_change(connection, actor, "retune-policy", channel, f"{_text(policy)} {reason}".strip())
        return policy

    def enabled(self) -> list[ChannelPolicy]:
        """The policies of all tenants that open jobs."""
        with self._database.reading() as connection:
            rows = connection.execute(_POLICIES).all()
        found = [ChannelPolicy(row.tenant, row.channel, RetunePolicy.model_validate_json(row.policy)) for row in rows]
        return [each for each in found if each.policy.enabled]

    def is_cooling(self, tenant: str, record_id: str, policy: RetunePolicy, now_s: float) -> bool:
        """Whether a job was opened for a record within the cool-down."""
        with self._database.reading() as connection:
            opened_s = connection.execute(_LATEST, {"tenant": tenant, "record_id": record_id}).scalar()
        return opened_s is not None and opened_s > now_s - policy.cool_down_s

    @retried
    def open(self, actor: Actor, retune: Retune, policy: RetunePolicy, spec: JobSpec) -> Job | None:
        """Queue a job for a record, with its entry in the audit log and its event, all or nothing.

        None if another process did so within the cool-down. Raises NotFound for a task that is not stored.
        """
        with self._database.writing() as connection:
            statement = insert_into(connection, RetuneTable)
            values = {
                "tenant": actor.tenant,
                "record_id": retune.record_id,
                "opened_s": actor.now_s,
                "job_id": "",
                "channel": retune.channel,
                "release": retune.release,
            }
            # Claimed before the job exists: the second of two processes waits here, and then finds it cooling.
            claim = statement.on_conflict_do_update(
                index_elements=["tenant", "record_id"],
                set_={name: statement.excluded[name] for name in ("opened_s", "channel", "release")},
                where=RetuneTable.opened_s <= actor.now_s - policy.cool_down_s,
            ).returning(RetuneTable.record_id)
            if connection.execute(claim, values).one_or_none() is None:
                return None
            job = queue_job(connection, actor.tenant, spec)
            key = (RetuneTable.tenant == actor.tenant, RetuneTable.record_id == retune.record_id)
            connection.execute(update(RetuneTable).where(*key).values(job_id=job.job_id))
            reason = f"{retune.release}, record {retune.record_id[:12]}: {retune.reason}; job {job.job_id}"
            record_change(connection, actor, RETUNE_ACTION, retune.channel, reason)
            data = {"channel": retune.channel, "release": retune.release, "record_id": retune.record_id}
            append_event(connection, actor.tenant, TENANT_STREAM, "retune", data | {"job_id": job.job_id})
        return job


def _text(policy: RetunePolicy) -> str:
    if not policy.enabled:
        return "off"
    limit = "" if policy.seconds is None else f", {policy.seconds:g} s"
    return f"on: {policy.trials} trials{limit}, cool-down {policy.cool_down_s:g} s."
