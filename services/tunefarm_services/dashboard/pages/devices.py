"""Devices and their lanes, with what the operator can ask of them."""

from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.farm.lane import LaneRequest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.device import DeviceView, WorkerView, by_device, device_id_of
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import read_action, require_viewer

_REQUESTS: Final = {each.value: each for each in LaneRequest if each is not LaneRequest.NONE}


def show_devices(request: Request) -> Response:
    """All devices, each with its lanes."""
    viewer, store = require_viewer(request, Scope.DEVICES_READ), parts_of(request).store
    is_operator = Scope.DEVICES_ADMIN in viewer.scopes
    requested = store.lanes.requests()
    devices = [
        (
            DeviceView.of(lanes, with_names=is_operator),
            [
                WorkerView.of(lane, requested.get(lane.lane_id, LaneRequest.NONE), with_names=is_operator)
                for lane in lanes
            ],
        )
        for lanes in by_device(store.lanes.find(None)).values()
    ]
    values = {"devices": devices, "is_operator": is_operator, "requests": list(_REQUESTS)}
    return page(request, "devices.html", values)


async def ask_device(request: Request) -> Response:
    """Ask something of all lanes of a device."""
    require_viewer(request, Scope.DEVICES_READ, Scope.DEVICES_ADMIN)
    await read_action(request)
    wanted = _REQUESTS.get(request.path_params["action"])
    if wanted is None:
        raise PageProblem(404, "There is no such action.")
    store, device_id = parts_of(request).store, request.path_params["device_id"]

    def ask() -> bool:
        lanes = [lane for lane in store.lanes.find(None) if device_id_of(lane) == device_id]
        for lane in lanes:
            store.lanes.request(lane.lane_id, wanted)
        return bool(lanes)

    if not await to_thread.run_sync(ask):
        raise PageProblem(404, "There is no such device.")
    return RedirectResponse(f"{request.scope['root_path']}/devices", 303, headers=HEADERS)


ROUTES: Final = (
    Route("/devices", show_devices, methods=["GET"]),
    Route("/devices/{device_id}/{action}", ask_device, methods=["POST"]),
)
