"""The code of a record, its runners-up, and its latency in the field, for pages, routes and commands."""

from enum import StrEnum
from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.views.fleet import FieldLatency

MAX_CODE_CHARACTERS: Final = 1_000_000
"""Longer texts are cut at the end of a line."""


class CodeForm(StrEnum):
    """A text of a record's code."""

    PYTHON = "python"
    """The trace as a Python function that applies it to a schedule."""
    SCHEDULED = "scheduled"
    """The function with the trace applied, as TensorIR."""
    DIFF = "diff"
    """Unified diff from the original function to the scheduled one."""
    LOWERED = "lowered"
    """TIR after TVM's lowering passes for the target, as code generation gets it, without checks of arguments."""
    ASSEMBLY = "assembly"
    """The machine code of the library that ships, disassembled."""


class RecordCode(Frozen):
    """One text of a record's code.

    Attributes:
        record_id: of the record.
        form: which text.
        text: at most ``MAX_CODE_CHARACTERS``.
        is_truncated: whether the text is only the beginning.
        artifact_id, library_digest: of the library whose machine code it is; None for other forms.
    """

    record_id: str
    form: CodeForm
    text: str
    is_truncated: bool = False
    artifact_id: str | None = None
    library_digest: str | None = None


class RecordTrial(Frozen):
    """A trial of the search that a record came from, timed in one process.

    Attributes:
        number: of its candidate.
        is_within_noise: whether it is not slower than the slowest fresh process of the record, and so as fast as the
            record, as far as was measured.
        is_own: whether the record has its schedule.
    """

    number: int
    latency_s: float
    is_within_noise: bool
    is_own: bool


class RecordTrials(Frozen):
    """The fastest trials of a record's search, fastest first, beside the record's latency and interval."""

    record_id: str
    latency_s: float
    interval_s: tuple[float, float] | None
    trials: tuple[RecordTrial, ...]


class ReleaseInField(Frozen):
    """A release with a function of the record, and how long a run of its model takes in the field.

    Attributes:
        release, model: names.
        channels: that announce it.
        calls: of the record's functions in one run.
        measured_p50_s, measured_p95_s: of one run, as measured for the manifest; None if nothing was measured.
        estimated_share: of the measured run that the record's functions take, by the record's latency.
        field: as reported by the devices whose bundle has the record; claims, not measurements.
    """

    release: str
    model: str
    channels: tuple[str, ...]
    calls: int
    measured_p50_s: float | None
    measured_p95_s: float | None
    estimated_share: float | None
    field: FieldLatency


class RecordInField(Frozen):
    """The measured latency of a record beside what devices report of the releases that it is in.

    ``unread`` counts bundles whose manifest could not be read, so that whether they have the record is not known.
    """

    record_id: str
    latency_s: float
    interval_s: tuple[float, float] | None
    releases: tuple[ReleaseInField, ...]
    unread: int = 0
