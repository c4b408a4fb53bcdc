"""Enrolling and controlling edge devices and channels."""

from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from tunefarm_schemas.edge.release import Name as ReleaseName
from tunefarm_schemas.edge.retune_policy import WEEK_S
from tunefarm_services.api.bodies.body import Body, Name, Seconds, Shown, with_examples, written_out

Reason = Annotated[Shown, StringConstraints(max_length=300, pattern=r"^[^\x00]*$")]
DeviceName = Annotated[Name, StringConstraints(max_length=100)]
Label = Annotated[Shown, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")]


class EnrolmentCodeBody(Body):
    """A code that enrols one device of a channel."""

    model_config = with_examples(
        {"channel": "stable", "labels": {"site": "Lyon"}, "expires_at": "2027-01-01T00:00:00Z"}
    )

    channel: ReleaseName
    labels: dict[Label, Label] = Field(default_factory=dict, max_length=20)
    expires_at: Annotated[AwareDatetime, BeforeValidator(written_out)] | None = Field(
        default=None, description="RFC 3339 with an offset; after a day if absent."
    )


class EdgeDeviceBody(Body):
    """What to change of a device. Absent fields stay."""

    model_config = with_examples({"name": "kitchen"}, {"channel": "beta"})

    name: DeviceName | None = None
    channel: ReleaseName | None = None


class RetunePolicyBody(Body):
    """A retune policy. Absent fields have their defaults."""

    model_config = with_examples({"enabled": True, "trials": 256, "cool_down_s": 604_800, "reason": "heat in summer"})

    enabled: bool = False
    trials: int = Field(default=256, ge=1, le=1_000_000)
    seconds: Seconds | None = None
    cool_down_s: float = Field(
        default=WEEK_S, ge=60.0, le=520 * WEEK_S, description="Least time between two jobs for the same record."
    )
    reason: Reason = ""


class ReasonBody(Body):
    """Why something is done, for the audit log."""

    model_config = with_examples({"reason": "complaints from site 3"})

    reason: Reason = ""
