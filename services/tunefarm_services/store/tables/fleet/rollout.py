"""Channels, the rollouts of their releases, retuning by policy, and who changed something in the fleet."""

from sqlalchemy import Double, Text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table


class ChannelDocumentTable(Table):
    """One row for each channel: its signed document as published last."""

    __tablename__ = "channel_documents"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    channel: Mapped[str] = mapped_column(Text, primary_key=True)
    sequence: Mapped[int]
    document: Mapped[str] = mapped_column(Text)


class RolloutTable(Table):
    """One row for each release that a channel announced, under the sequence that did so first."""

    __tablename__ = "rollouts"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    channel: Mapped[str] = mapped_column(Text, primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True)
    release: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    stage: Mapped[int]
    """Index into the policy's stages."""
    cutoff: Mapped[float] = mapped_column(Double)
    """Devices with a lower number belong to the stage."""
    reason: Mapped[str] = mapped_column(Text)
    began_s: Mapped[float] = mapped_column(Double)
    stage_began_s: Mapped[float] = mapped_column(Double)
    evaluated_s: Mapped[float] = mapped_column(Double)
    version: Mapped[int]
    """Counts changes of state and stage: a decision is written only if nothing changed since its rows were read."""


class FleetAuditTable(Table):
    """One row for each change of the fleet."""

    __tablename__ = "fleet_audit"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    audit_id: Mapped[str] = mapped_column(Text, primary_key=True)
    """Begins with the time, so that ids are in order of time."""
    at_s: Mapped[float] = mapped_column(Double)
    token_id: Mapped[str | None] = mapped_column(Text)
    """None for the service itself and for processes with access to the database."""
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    """A channel, a device or a code."""
    reason: Mapped[str] = mapped_column(Text)


class RetunePolicyTable(Table):
    """One row for each channel whose policy was set."""

    __tablename__ = "retune_policies"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    channel: Mapped[str] = mapped_column(Text, primary_key=True)
    policy: Mapped[str] = mapped_column(Text)


class RetuneTable(Table):
    """One row for each record for which a policy opened a job: the latest one."""

    __tablename__ = "retunes"

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    record_id: Mapped[str] = mapped_column(Text, primary_key=True)
    opened_s: Mapped[float] = mapped_column(Double)
    job_id: Mapped[str] = mapped_column(Text)
    channel: Mapped[str] = mapped_column(Text)
    release: Mapped[str] = mapped_column(Text)
