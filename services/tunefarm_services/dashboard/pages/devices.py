"""Devices and their lanes: their state, drift and history, and what the operator can ask of them."""

from collections.abc import Callable
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.farm.lane import Lane, LaneRequest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.device import DeviceView, WorkerView, by_device, device_id_of, worker_id_of
from tunefarm_services.dashboard.drawings.drift_plot import HEIGHT, MARGIN, WIDTH, drift_plots
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import read_action, require_viewer
from tunefarm_services.store.catalog.lane_repository import LaneRepository

_REQUESTS: Final = {each.value: each for each in LaneRequest if each is not LaneRequest.NONE}


def show_devices(request: Request) -> Response:
    """All devices, each with its lanes."""
    viewer, store = require_viewer(request, Scope.DEVICES_READ), parts_of(request).store
    is_operator = Scope.DEVICES_ADMIN in viewer.scopes
    devices = [
        (DeviceView.of(lanes, with_names=is_operator), _workers(store.lanes, lanes, with_names=is_operator))
        for lanes in by_device(store.lanes.find(None)).values()
    ]
    values = {"devices": devices, "is_operator": is_operator, "requests": list(_REQUESTS)}
    return page(request, "devices.html", values)


def show_device(request: Request) -> Response:
    """One device: its class, calibration and drift, its lanes, and their history."""
    viewer, store = require_viewer(request, Scope.DEVICES_READ), parts_of(request).store
    is_operator = Scope.DEVICES_ADMIN in viewer.scopes
    lanes = _lanes_of(store.lanes, request.path_params["device_id"])
    history = store.lane_history.of_device(lanes, with_names=is_operator)
    values = {
        "device": DeviceView.of(lanes, with_names=is_operator),
        "workers": _workers(store.lanes, lanes, with_names=is_operator),
        "history": history,
        "plots": drift_plots(history.reference, history.samples),
        "size": (WIDTH, HEIGHT, MARGIN),
        "is_operator": is_operator,
        "requests": list(_REQUESTS),
    }
    return page(request, "device.html", values)


async def ask_device(request: Request) -> Response:
    """Ask something of all lanes of a device."""
    return await _ask(request, lambda _lane: True)


async def ask_lane(request: Request) -> Response:
    """Ask something of one lane of a device."""
    worker_id = request.path_params["worker_id"]
    return await _ask(request, lambda lane: worker_id_of(lane) == worker_id)


async def _ask(request: Request, is_meant: Callable[[Lane], bool]) -> Response:
    viewer = require_viewer(request, Scope.DEVICES_READ, Scope.DEVICES_ADMIN)
    await read_action(request)
    wanted = _REQUESTS.get(request.path_params["action"])
    if wanted is None:
        raise PageProblem(404, "There is no such action.")
    store, device_id = parts_of(request).store, request.path_params["device_id"]

    def ask() -> None:
        meant = [lane for lane in _lanes_of(store.lanes, device_id) if is_meant(lane)]
        if not meant:
            raise PageProblem(404, "The device has no such lane.")
        for lane in meant:
            store.lanes.request(lane.lane_id, wanted, token_id=viewer.token_id)

    await to_thread.run_sync(ask)
    return RedirectResponse(f"{request.scope['root_path']}/devices/{device_id}", 303, headers=HEADERS)


def _workers(registered: LaneRepository, lanes: list[Lane], *, with_names: bool) -> list[WorkerView]:
    requested = registered.requests()
    return [WorkerView.of(lane, requested.get(lane.lane_id, LaneRequest.NONE), with_names=with_names) for lane in lanes]


def _lanes_of(registered: LaneRepository, device_id: str) -> list[Lane]:
    found = [lane for lane in registered.find(None) if device_id_of(lane) == device_id]
    if not found:
        raise PageProblem(404, "There is no such device.")
    return found


ROUTES: Final = (
    Route("/devices", show_devices, methods=["GET"]),
    Route("/devices/{device_id}", show_device, methods=["GET"]),
    Route("/devices/{device_id}/{action}", ask_device, methods=["POST"]),
    Route("/devices/{device_id}/lanes/{worker_id}/{action}", ask_lane, methods=["POST"]),
)
