"""Reports of devices: claims about the field, which are never measurements for a search."""

from typing import Annotated, Final, Literal

from pydantic import Field

from tunefarm_schemas.edge.release import Name, UtcTime
from tunefarm_schemas.frozen import Frozen

MAX_DROPPED: Final = 2**31 - 1
"""More are not counted: databases keep them in 32 bits."""

EdgeFailure = Literal[
    "tampered",
    "expired",
    "downgraded",
    "wrong_target",
    "revoked",
    "no_space",
    "clock_rolled_back",
    "unreachable",
    "interrupted",
    "load_failed",
    "self_test_failed",
    "health_check_failed",
    "crashed",
]
"""Why a device refused a release or left it."""


class InstallReport(Frozen):
    """A release was installed, refused or left. ``failure`` is None after success.

    ``rolled_back_to`` is what the device then runs instead.
    """

    kind: Literal["install"] = "install"
    release: Name
    failure: EdgeFailure | None
    detail: str = Field(default="", max_length=1000)
    rolled_back_to: Name | None = None
    activation_s: float | None = Field(default=None, ge=0)
    """From the decision to switch to the first inference that was possible."""


class LatencyReport(Frozen):
    """Latencies of a release's runs on one device since its last report.

    Attributes:
        runs: how many.
        mean_s, p50_s, p95_s, max_s: of one run.
        temperature_celsius, clock_hz: at the time of the report, if the device can tell.
    """

    kind: Literal["latency"] = "latency"
    release: Name
    runs: int = Field(ge=1)
    mean_s: float = Field(gt=0)
    p50_s: float = Field(gt=0)
    p95_s: float = Field(gt=0)
    max_s: float = Field(gt=0)
    temperature_celsius: float | None = None
    clock_hz: float | None = Field(default=None, gt=0)


class SelfTestReport(Frozen):
    """The vectors of a bundle were run. ``worst_error`` is relative to what the manifest permits: at most 1 passes."""

    kind: Literal["self_test"] = "self_test"
    release: Name
    passed: bool
    worst_error: float = Field(ge=0)
    best_s: float | None = Field(default=None, gt=0)


class EdgeReport(Frozen):
    """One report. ``report_id`` is chosen by the device, so that a report that is sent twice counts once."""

    report_id: str = Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")
    at: UtcTime
    body: Annotated[InstallReport | LatencyReport | SelfTestReport, Field(discriminator="kind")]


class EdgeReports(Frozen):
    """What a device sends at once, oldest first."""

    reports: tuple[EdgeReport, ...] = Field(min_length=1, max_length=200)
    dropped: int = Field(default=0, ge=0, le=MAX_DROPPED)
    """Reports that the device had to drop since the last ones for want of space."""
