"""How long a model takes: without a trial, tuned, and with the libraries that were timed beside it."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PlanTime(_Figures):
    """A plan of which library runs what, with the latency of the model under it or the reason why there is none."""

    plan: str
    latency_s: float | None = None
    problem: str | None = None


class LibraryTimes(_Figures):
    """The plans that were timed beside each other, and the fastest one's name."""

    winner: str
    plans: tuple[PlanTime, ...] = ()


class BuiltTimes(_Figures):
    """Latencies of one run of a built model, in seconds."""

    tuned_s: float | None = None
    untried_s: float | None = None
    libraries: LibraryTimes | None = None


def built_times(figures: Mapping[str, object]) -> BuiltTimes | None:
    """The times in an event of a built model; None if another version of tunefarm wrote it in another form."""
    try:
        return BuiltTimes.model_validate(figures)
    except ValidationError:
        return None
