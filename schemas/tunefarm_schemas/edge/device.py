"""Devices in the field: enrolment, facts, polls and the answers to them."""

from typing import Literal

from pydantic import Field

from tunefarm_schemas.edge.release import Architecture, Name
from tunefarm_schemas.frozen import Frozen


class EdgeFacts(Frozen):
    """What a device says about itself. Claims: they choose variants and show in the fleet view, nothing else."""

    architecture: Architecture
    cpu_features: tuple[str, ...] = Field(default=(), max_length=500)
    device_class_id: str | None = Field(default=None, max_length=100)
    agent_version: str = Field(max_length=50)
    runtime_abi: int
    free_bytes: int = Field(ge=0)
    operating_system: str = Field(default="", max_length=200)


class EnrolmentRequest(Frozen):
    """A device asks for a token by a one-time code."""

    code: str = Field(max_length=100)
    name: str = Field(min_length=1, max_length=100)
    facts: EdgeFacts


class Enrolment(Frozen):
    """A device's identity. ``token`` is shown once."""

    edge_device_id: str
    channel: Name
    token: str


class EdgePoll(Frozen):
    """What a device runs when it asks what to run."""

    facts: EdgeFacts
    running: Name | None
    """The release, None before the first."""
    sequence: int = Field(default=0, ge=0)
    """The highest channel sequence that it has verified."""


EdgeAction = Literal["run_current", "run_previous", "stay", "stop"]
"""``stay``: install nothing now. ``stop``: install nothing, and run no model until another advice."""


class EdgeAdvice(Frozen):
    """What a device is to do. Advice: the device runs only releases that its channel's signed document permits."""

    channel: Name
    action: EdgeAction
    release: Name | None
    """The release that the action means."""
    poll_after_s: float = Field(gt=0)
    """When to ask again, jitter included."""
    reason: str = Field(default="", max_length=500)
