"""Records as rows: what was measured, how a record matches a query, and what devices report."""

from typing import Final

from tunefarm_schemas.tuning.record import MatchKind, RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.views.quantities import latency_text, ratio_text
from tunefarm_schemas.views.record import RecordInField, RecordTrials, ReleaseInField

HEADINGS: Final = ("record", "workload", "latency", "gain", "status", "abi", "source", "created")
TRIAL_HEADINGS: Final = ("trial", "latency", "against record", "within noise")
FIELD_HEADINGS: Final = ("release", "calls", "share", "measured p50", "field p50", "field p95", "x manifest", "devices")


def record_row(record: TuningRecord, name: str) -> tuple[str, ...]:
    """A record of the workload ``name``."""
    return (
        record.record_id,
        name,
        latency_text(record.latency_s),
        ("about " if record.untuned_is_estimate else "") + ratio_text(record.untuned_latency_s, record.latency_s),
        record.status.value,
        record.key.abi,
        record.source,
        record.created_at[:19],
    )


def match_row(match: RecordMatch, name: str) -> tuple[str, ...]:
    """A record with how it matches."""
    return (_match_text(match), *record_row(match.record, name))


def _match_text(match: RecordMatch) -> str:
    """The kind of match and the parts of the key that differ. The key of a claimed record is not verified."""
    if match.match is MatchKind.EXACT:
        return "exact"
    if match.match is MatchKind.SIMILAR:
        return "similar workload"
    if match.record.status is RecordStatus.CLAIMED:
        return "same workload, not measured here"
    parts = " and ".join(part.replace("_", " ") for part in match.differs)
    return f"same workload, other {parts}" if parts else "same workload"


def trial_rows(found: RecordTrials) -> list[tuple[str, ...]]:
    """A row for each of the fastest trials."""
    return [
        (
            str(trial.number),
            latency_text(trial.latency_s),
            f"{100 * (trial.latency_s / found.latency_s - 1):+.1f}%",
            "the record's own schedule" if trial.is_own else "yes" if trial.is_within_noise else "no",
        )
        for trial in found.trials
    ]


def field_rows(field: RecordInField) -> list[tuple[str, ...]]:
    """A row for each release that has the record. Measured and field latencies are of a run of its model."""
    return [_field_row(each) for each in field.releases]


def _field_row(each: ReleaseInField) -> tuple[str, ...]:
    share, ratio = each.estimated_share, each.field.median_ratio
    return (
        each.release,
        str(each.calls),
        "-" if share is None else f"about {100 * share:.2g}%",
        latency_text(each.measured_p50_s),
        latency_text(each.field.p50_s),
        latency_text(each.field.p95_s),
        "-" if ratio is None else f"{ratio:.3f}",
        str(each.field.devices),
    )
