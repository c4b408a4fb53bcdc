"""Texts about how a record was measured, for its status and for the message of a job."""

from tunefarm_schemas.tuning.measurement import Exported
from tunefarm_schemas.tuning.record import BUSY, TuningRecord
from tunefarm_services.tuner.search.exploration_run import ExplorationRun


def still_text(standing: TuningRecord) -> str:
    """The message of a job that could not replace a record."""
    busy = "as it is now" if standing.is_doubtful else "and the host is busy now"
    return f"The record was measured {_flaw_of(standing)}, {busy}: the next job times it again."


def again_text(standing: TuningRecord) -> str:
    """The message of a job that replaced it."""
    return f"The record was measured {_flaw_of(standing)}, and was timed again."


def busy_text(exported: Exported) -> str:
    """The note about a busy host in a record's status."""
    if exported.foreign_load < BUSY:
        return ""
    low_us, high_us = (1e6 * edge(exported.process_latencies_s) for edge in (min, max))
    return f"; taken while the host was busy: {low_us:.4g} - {high_us:.4g} us"


def as_given_text(run: ExplorationRun) -> str:
    """The note about requested inputs in a record's status."""
    return f" with {', '.join(spec.text for spec in run.input_specs)}" if run.input_specs else ""


def _flaw_of(standing: TuningRecord) -> str:
    """Why a record is timed again."""
    return "while the host was busy" if standing.is_doubtful else f"in {standing.processes} fresh processes only"
