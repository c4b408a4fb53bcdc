"""Calls for edge devices, their enrolment codes, and channels."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.views.fleet import (
    ChannelEvidence,
    ChannelView,
    EdgeDeviceView,
    EnrolmentCode,
    FieldLatency,
    FleetChange,
    FleetSummary,
    NewEnrolmentCode,
)

ChannelVerb = Literal["pause", "resume", "advance", "roll-back", "stop"]


def enrolment_codes(limit: int | None = None) -> Flow[list[EnrolmentCode]]:
    """Codes without their secrets, used and expired ones too."""
    return listed("/fleet/enrolment-codes", EnrolmentCode, {}, limit)


def new_enrolment_code(
    channel: str, labels: Mapping[str, str] | None = None, expires_at: datetime | None = None
) -> Flow[NewEnrolmentCode]:
    """Create a code that enrols one device of a channel. Its text is returned only once.

    ``expires_at`` has a time zone; default: after a day.
    """
    body: dict[str, Any] = {"channel": channel, "labels": dict(labels or {})}
    if expires_at is not None:
        body["expires_at"] = expires_at.isoformat()
    reply: Reply = yield Request("POST", "/fleet/enrolment-codes", body=body, creates=True)
    return reply.read(NewEnrolmentCode)


def enrolment_code_deletion(code_id: str) -> Flow[None]:
    """Delete a code: it no longer enrols a device."""
    yield Request("DELETE", f"/fleet/enrolment-codes/{code_id}")


def edge_devices(
    channel: str | None = None, release: str | None = None, failure: str | None = None, limit: int | None = None
) -> Flow[list[EdgeDeviceView]]:
    """Devices by id: all, or those of a channel, that run a release, or whose latest installation failed so."""
    query = {"channel": channel, "release": release, "failure": failure}
    return listed("/fleet/devices", EdgeDeviceView, query, limit)


def edge_device(edge_device_id: str) -> Flow[EdgeDeviceView]:
    """One device."""
    reply: Reply = yield Request("GET", f"/fleet/devices/{edge_device_id}")
    return reply.read(EdgeDeviceView)


def edge_device_change(
    edge_device_id: str, name: str | None = None, channel: str | None = None
) -> Flow[EdgeDeviceView]:
    """Rename a device, or move it to another channel."""
    body = {key: value for key, value in (("name", name), ("channel", channel)) if value is not None}
    reply: Reply = yield Request("POST", f"/fleet/devices/{edge_device_id}:change", body=body)
    return reply.read(EdgeDeviceView)


def edge_device_revocation(edge_device_id: str, reason: str = "") -> Flow[EdgeDeviceView]:
    """Revoke the token of a device permanently."""
    reply: Reply = yield Request("POST", f"/fleet/devices/{edge_device_id}:revoke", body={"reason": reason})
    return reply.read(EdgeDeviceView)


def edge_device_deletion(edge_device_id: str) -> Flow[None]:
    """Revoke the token of a device, and delete the device with its reports."""
    yield Request("DELETE", f"/fleet/devices/{edge_device_id}")


def fleet_summary() -> Flow[FleetSummary]:
    """Count devices by channel, release and failure, with the rollouts of all channels."""
    reply: Reply = yield Request("GET", "/fleet/summary")
    return reply.read(FleetSummary)


def field_latency(release: str) -> Flow[FieldLatency]:
    """Latencies of a release in the field, beside those of its manifests. Claims of devices, not measurements."""
    reply: Reply = yield Request("GET", "/fleet/latency", query={"release": release})
    return reply.read(FieldLatency)


def fleet_changes(limit: int | None = 100) -> Flow[list[FleetChange]]:
    """Who changed what in the fleet, and why, the newest first."""
    return listed("/fleet/changes", FleetChange, {}, limit)


def channels(limit: int | None = None) -> Flow[list[ChannelView]]:
    """Channels with the rollouts of their releases, by name."""
    return listed("/channels", ChannelView, {}, limit)


def channel(name: str) -> Flow[ChannelView]:
    """One channel with the rollout of its release."""
    reply: Reply = yield Request("GET", f"/channels/{name}")
    return reply.read(ChannelView)


def channel_evidence(name: str) -> Flow[ChannelEvidence]:
    """What the gate knows of the rollout's stage, and the channel's devices by release. Claims of devices."""
    reply: Reply = yield Request("GET", f"/channels/{name}/evidence")
    return reply.read(ChannelEvidence)


def channel_request(name: str, verb: ChannelVerb, reason: str = "") -> Flow[ChannelView]:
    """Pause, resume, advance, roll back or stop the rollout of a channel; ``reason`` is for the audit log."""
    reply: Reply = yield Request("POST", f"/channels/{name}:{verb}", body={"reason": reason})
    return reply.read(ChannelView)


def retune_policy(name: str) -> Flow[RetunePolicy]:
    """Whether drift in the field opens jobs for the records of a channel, and with which budget."""
    reply: Reply = yield Request("GET", f"/channels/{name}/policy")
    return reply.read(RetunePolicy)


def retune_policy_change(name: str, policy: RetunePolicy, reason: str = "") -> Flow[RetunePolicy]:
    """Replace the retune policy of a channel; ``reason`` is for the audit log."""
    body = policy.model_dump(mode="json") | {"reason": reason}
    reply: Reply = yield Request("PUT", f"/channels/{name}/policy", body=body)
    return reply.read(RetunePolicy)
