"""Trials, their dispatches and measurements."""

from sqlalchemy import Boolean, Double, ForeignKeyConstraint, Index, Text, false, text
from sqlalchemy.orm import Mapped, mapped_column

from tunefarm_services.store.tables.metadata import Table

_TRIAL = ["trials.tenant", "trials.exploration_id", "trials.candidate_number"]


class TrialTable(Table):
    """One row for each dispatched candidate, with the result of its latest search attempt."""

    __tablename__ = "trials"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "exploration_id"], ["explorations.tenant", "explorations.exploration_id"]),
        # Few trials are timed to the end, and few fail. A query for single trials cannot use a partial index;
        # PostgreSQL used a whole one for that, without statistics.
        Index(
            "ix_trials_timed",
            "tenant",
            "exploration_id",
            "latency_s",
            "candidate_number",
            sqlite_where=text("latency_s IS NOT NULL"),
            postgresql_where=text("latency_s IS NOT NULL"),
        ),
        Index(
            "ix_trials_failed",
            "tenant",
            "exploration_id",
            "candidate_number",
            "failure_reason",
            sqlite_where=text("failure_reason IS NOT NULL"),
            postgresql_where=text("failure_reason IS NOT NULL"),
        ),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    exploration_id: Mapped[str] = mapped_column(Text, primary_key=True)
    candidate_number: Mapped[int] = mapped_column(primary_key=True)
    trace: Mapped[str] = mapped_column(Text)
    module_hash: Mapped[str] = mapped_column(Text)
    origin: Mapped[str] = mapped_column(Text)
    predicted_score: Mapped[float | None] = mapped_column(Double)
    predicted_build_s: Mapped[float | None] = mapped_column(Double)
    state: Mapped[str] = mapped_column(Text)
    is_counted: Mapped[bool]
    """Whether it counts as one of the exploration's spent trials."""
    latency_s: Mapped[float | None] = mapped_column(Double)
    at_least_s: Mapped[float | None] = mapped_column(Double)
    failure_reason: Mapped[str | None] = mapped_column(Text)
    failure_message: Mapped[str | None] = mapped_column(Text)
    failure_under_load: Mapped[bool | None]


class DispatchTable(Table):
    """One row for each attempt that was sent to a lane."""

    __tablename__ = "dispatches"
    __table_args__ = (ForeignKeyConstraint(["tenant", "exploration_id", "candidate_number"], _TRIAL),)

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    exploration_id: Mapped[str] = mapped_column(Text, primary_key=True)
    candidate_number: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    purpose: Mapped[str] = mapped_column(Text, primary_key=True)
    dispatch_id: Mapped[str] = mapped_column(Text)
    job_id: Mapped[str] = mapped_column(Text)
    nonce: Mapped[str] = mapped_column(Text)
    fence: Mapped[int]


class MeasurementTable(Table):
    """One row for each attempt with a result. ``document`` is the whole measurement as JSON."""

    __tablename__ = "measurements"
    __table_args__ = (
        ForeignKeyConstraint(["tenant", "exploration_id", "candidate_number"], _TRIAL),
        # All columns of the overview, which counts the measurements of the last hour and the failures of the last day.
        # The tenant is not first: PostgreSQL without statistics would read all rows of a tenant for one measurement.
        Index("ix_measurements_recent", "measured_at", "tenant", "is_shared", "failure_reason"),
    )

    tenant: Mapped[str] = mapped_column(Text, primary_key=True)
    exploration_id: Mapped[str] = mapped_column(Text, primary_key=True)
    candidate_number: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    purpose: Mapped[str] = mapped_column(Text, primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    latency_s: Mapped[float | None] = mapped_column(Double)
    failure_reason: Mapped[str | None] = mapped_column(Text)
    device_fingerprint: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    measured_at: Mapped[str] = mapped_column(Text)
    is_shared: Mapped[bool] = mapped_column(Boolean, server_default=false())
    """Whether it was taken over from another tenant of the sharing group, which paid for it."""
