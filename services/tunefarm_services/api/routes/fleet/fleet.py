"""Edge devices as their owners see them."""

import time
from datetime import UTC
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from tunefarm_schemas.views.fleet import (
    EdgeDeviceView,
    EnrolmentCode,
    FieldLatency,
    FleetChange,
    FleetSummary,
    NewEnrolmentCode,
)
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import DevicesAdmin, DevicesReader
from tunefarm_services.api.bodies.fleet import EdgeDeviceBody, EnrolmentCodeBody, ReasonBody
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.edge_channels import actor_of
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id, IdFilter
from tunefarm_services.store.fleet.channel_views import channel_views

router = APIRouter(prefix="/v1/fleet", tags=["fleet"], route_class=JsonRoute)

CODE_LASTS_S: Final = 86_400.0

ReleaseQuery = Annotated[str, Query(max_length=100, pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$", description="Its name.")]


@router.post("/enrolment-codes", response_model=NewEnrolmentCode, status_code=201, responses=responses())
def create_code(body: EnrolmentCodeBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Create a code that enrols one device. Its text is shown once."""
    actor = actor_of(caller.token)
    expires_s = actor.now_s + CODE_LASTS_S if body.expires_at is None else body.expires_at.astimezone(UTC).timestamp()
    code, text = parts.store.enrolments.create_code(actor, body.channel, body.labels, expires_s)
    return answer(NewEnrolmentCode(code=code, text=text), 201)


@router.get("/enrolment-codes", response_model=Page[EnrolmentCode], responses=responses())
def list_codes(
    caller: DevicesAdmin, parts: PartsOf, page_size: PageSize = DEFAULT_SIZE, page_token: PageToken = None
) -> Response:
    """List codes without their secrets, used and expired ones too."""
    paging = Paging("enrolment-codes", page_size, page_token)
    codes = parts.store.enrolments.codes(caller.tenant)
    found = [code for code in codes if paging.after is None or code.code_id > paging.after]
    return answer(paging.page(found, lambda code: code.code_id, lambda code: code))


@router.delete("/enrolment-codes/{code_id}", status_code=204, responses=responses(ProblemKind.NOT_FOUND))
def delete_code(code_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Delete a code: it no longer enrols a device."""
    parts.store.enrolments.delete_code(actor_of(caller.token), code_id)
    return Response(status_code=204)


@router.get("/devices", response_model=Page[EdgeDeviceView], responses=responses())
def list_edge_devices(
    caller: DevicesReader,
    parts: PartsOf,
    channel: IdFilter = None,
    release: IdFilter = None,
    failure: IdFilter = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List devices: all, or those of a channel, that run a release, or whose latest installation failed so."""
    filters = {"channel": channel, "release": release, "failure": failure}
    paging = Paging("edge-devices", page_size, page_token, filters)
    found = parts.store.edge_devices.page(
        caller.tenant, paging.after or "", page_size + 1, channel=channel, release=release, failure=failure
    )
    return answer(paging.page(found, lambda device: device.edge_device_id, lambda device: device))


@router.get("/devices/{edge_device_id}", response_model=EdgeDeviceView, responses=responses(ProblemKind.NOT_FOUND))
def get_edge_device(edge_device_id: Id, caller: DevicesReader, parts: PartsOf) -> Response:
    """One device."""
    return answer(parts.store.edge_devices.get(caller.tenant, edge_device_id))


@router.post(
    "/devices/{edge_device_id}:change", response_model=EdgeDeviceView, responses=responses(ProblemKind.NOT_FOUND)
)
def change_edge_device(edge_device_id: Id, body: EdgeDeviceBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Rename a device, or move it to another channel."""
    actor = actor_of(caller.token)
    return answer(parts.store.edge_devices.change(actor, edge_device_id, name=body.name, channel=body.channel))


@router.post(
    "/devices/{edge_device_id}:revoke", response_model=EdgeDeviceView, responses=responses(ProblemKind.NOT_FOUND)
)
def revoke_edge_device(edge_device_id: Id, body: ReasonBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Revoke the token of a device permanently."""
    device = parts.store.edge_devices.revoke(actor_of(caller.token), edge_device_id, body.reason)
    parts.tokens.forget()
    return answer(device)


@router.delete("/devices/{edge_device_id}", status_code=204, responses=responses(ProblemKind.NOT_FOUND))
def delete_edge_device(edge_device_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Revoke the token of a device, and delete the device with its reports."""
    parts.store.edge_devices.delete(actor_of(caller.token), edge_device_id)
    parts.tokens.forget()
    return Response(status_code=204)


@router.get("/summary", response_model=FleetSummary, responses=responses())
def summary(caller: DevicesReader, parts: PartsOf) -> Response:
    """Count devices by channel, release and failure, with the rollouts of all channels."""
    devices = parts.store.edge_devices
    by_channel = devices.counts(caller.tenant, "channel")
    view = FleetSummary(
        devices=sum(by_channel.values()),
        silent=devices.silent(caller.tenant, time.time()),
        by_channel=by_channel,
        by_release=devices.counts(caller.tenant, "running"),
        by_failure={name: n for name, n in devices.counts(caller.tenant, "failure").items() if name},
        drifting=devices.drifting(caller.tenant),
        channels=tuple(channel_views(parts.store.rollouts, caller.tenant)),
    )
    return answer(view)


@router.get("/latency", response_model=FieldLatency, responses=responses())
def latency(release: ReleaseQuery, caller: DevicesReader, parts: PartsOf) -> Response:
    """Latencies of a release in the field, beside those of its manifests. Claims of devices, not measurements."""
    documents = parts.store.rollouts.documents(caller.tenant)
    return answer(parts.store.edge_reports.field_latency(caller.tenant, release, documents))


@router.get("/changes", response_model=Page[FleetChange], responses=responses())
def list_changes(
    caller: DevicesAdmin, parts: PartsOf, page_size: PageSize = DEFAULT_SIZE, page_token: PageToken = None
) -> Response:
    """List who changed what in the fleet, and why, the newest first."""
    paging = Paging("fleet-changes", page_size, page_token)
    found = parts.store.fleet_audit.page(caller.tenant, paging.after, page_size + 1)
    return answer(paging.page(found, lambda change: change.audit_id, lambda change: change))
