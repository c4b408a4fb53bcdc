"""A fleet of edge devices, as lists and commands show it. Times are RFC 3339, UTC."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from tunefarm_schemas.edge.device import EdgeFacts
from tunefarm_schemas.edge.release import GatePolicy


class FleetView(BaseModel):
    """The configuration that views of the fleet share."""

    model_config = ConfigDict(frozen=True)


class EnrolmentCode(FleetView):
    """A code that enrols one device."""

    code_id: str
    channel: str
    labels: dict[str, str]
    created_at: str
    expires_at: str
    used_at: str | None
    edge_device_id: str | None
    """The device that used it."""


class NewEnrolmentCode(FleetView):
    """A code with its text, which is shown once. A repeated request returns null instead of the text."""

    code: EnrolmentCode
    text: str | None


class EdgeDeviceView(FleetView):
    """An enrolled device. ``facts`` and everything about releases are what the device said."""

    edge_device_id: str
    name: str
    channel: str
    labels: dict[str, str]
    token_id: str
    enrolled_at: str
    revoked_at: str | None
    seen_at: str
    running: str | None
    sequence: int
    failure: str | None
    """Of its latest installation."""
    dropped_reports: int
    facts: EdgeFacts


class ChannelView(FleetView):
    """A channel with the rollout of its current release."""

    channel: str
    sequence: int
    expires_at: str
    current: str
    previous: str | None
    revoked: tuple[str, ...]
    gate: GatePolicy
    state: str
    stage_percent: int
    reason: str
    began_at: str
    stage_began_at: str


class FieldLatency(FleetView):
    """Latencies of a release as devices report them: each figure is a quantile over devices of their own quantiles.

    ``median_ratio`` is the median over devices of the p50 in the field, divided by the p50 of their manifest.
    """

    release: str
    devices: int
    runs: int
    p50_s: float | None = None
    p50_of_slowest_tenth_s: float | None = None
    p95_s: float | None = None
    p95_of_slowest_tenth_s: float | None = None
    compared: int = Field(default=0)
    """Devices whose manifest has a measured latency."""
    expected_p50_s: float | None = None
    """Median over these devices of the p50 of their manifest."""
    median_ratio: float | None = None
    drifting: int = 0
    """Devices beyond the latency of their manifest and the tolerance of their channel."""


class FleetSummary(FleetView):
    """Counts of devices that are not revoked."""

    devices: int
    silent: int
    """Without a poll for a day."""
    by_channel: dict[str, int]
    by_release: dict[str, int]
    """By the release that they run; empty text for none."""
    by_failure: dict[str, int]
    """By the failure of their latest installation."""
    drifting: dict[str, int]
    """By release: devices beyond the latency of their manifest."""
    channels: tuple[ChannelView, ...]


class ChangeActor(StrEnum):
    """What kind of actor changes a fleet."""

    CALLER = "token"
    """A caller of the API or a viewer of the dashboard."""
    GATE = "gate"
    """The gate of a rollout."""
    RETUNE_POLICY = "retune policy"
    """The tuner, because a channel's policy permits it."""
    LOCAL = "local"
    """A process on the host of the service, with access to its database."""


class FleetChange(FleetView):
    """An entry of the audit log."""

    audit_id: str
    at: str
    actor: ChangeActor
    token_id: str | None
    """Of the actor; None unless it is a token."""
    action: str
    subject: str
    reason: str


class ChannelEvidence(FleetView):
    """What the gate knows of a rollout's stage, and the devices of its channel. Claims of devices.

    Attributes:
        devices: of the stage, that can run the release.
        heard: of these, how many have reported anything about it.
        with_latency: how many have reported a latency and have not failed.
        compared: of these, how many have a latency to compare with.
        within_p50, within_p95: of these, how many are as fast as expected, within the gate's tolerance.
        outstanding: how many may still report a latency in time.
        failures: of the stage's devices, by reason; ``silent`` for those that reported nothing in time.
        verdict: ``wait``, ``advance`` or ``stop``: what the gate would decide now of a running rollout.
        by_release: all devices of the channel by the release that they run; empty text for none.
    """

    channel: str
    release: str
    devices: int
    heard: int
    with_latency: int
    compared: int
    within_p50: int
    within_p95: int
    outstanding: int
    failures: dict[str, int]
    verdict: str
    verdict_reason: str
    by_release: dict[str, int]
