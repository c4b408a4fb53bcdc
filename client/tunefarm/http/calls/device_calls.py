"""Calls for devices and the lanes of workers."""

from typing import Literal

from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.views.device import DeviceHistory, DeviceView, WorkerView

LaneVerb = Literal["drain", "resume", "quarantine", "maintenance"]


def devices(limit: int | None = None) -> Flow[list[DeviceView]]:
    """Devices, by id."""
    return listed("/devices", DeviceView, {}, limit)


def device(device_id: str) -> Flow[DeviceView]:
    """One device."""
    reply: Reply = yield Request("GET", f"/devices/{device_id}")
    return reply.read(DeviceView)


def device_history(device_id: str) -> Flow[DeviceHistory]:
    """The calibration of a device, its reference kernels in the last week, and changes of its lanes."""
    reply: Reply = yield Request("GET", f"/devices/{device_id}/history")
    return reply.read(DeviceHistory)


def device_request(device_id: str, verb: LaneVerb) -> Flow[None]:
    """Ask all lanes of a device to drain, to resume, or to stop for quarantine or maintenance."""
    yield Request("POST", f"/devices/{device_id}:{verb}")


def workers(limit: int | None = None) -> Flow[list[WorkerView]]:
    """Lanes of workers, by id."""
    return listed("/workers", WorkerView, {}, limit)


def worker(worker_id: str) -> Flow[WorkerView]:
    """One lane of a worker."""
    reply: Reply = yield Request("GET", f"/workers/{worker_id}")
    return reply.read(WorkerView)


def worker_request(worker_id: str, verb: LaneVerb) -> Flow[None]:
    """Ask a lane to drain, to resume, or to stop for quarantine or maintenance."""
    yield Request("POST", f"/workers/{worker_id}:{verb}")
