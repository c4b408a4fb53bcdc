"""Devices and the lanes of workers."""

from fastapi import APIRouter
from starlette.responses import Response

from tunefarm_schemas.farm.lane import Lane, LaneRequest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.device import DeviceHistory, DeviceView, WorkerView, by_device, worker_id_of
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import Caller, DevicesAdmin, DevicesReader
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id, IdFilter
from tunefarm_services.store import NotFound

router = APIRouter(prefix="/v1", tags=["devices"])


@router.get("/devices", response_model=Page[DeviceView], responses=responses())
def list_devices(
    caller: DevicesReader,
    parts: PartsOf,
    device_class_id: IdFilter = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List devices of the farm with the state of their lanes."""
    paging = Paging("devices", page_size, page_token, {"device_class_id": device_class_id})
    found = [
        DeviceView.of(lanes, with_names=_sees_names(caller))
        for device_id, lanes in by_device(parts.store.lanes.find(device_class_id)).items()
        if paging.after is None or device_id > paging.after
    ]
    return answer(paging.page(found, lambda view: view.device_id, lambda view: view))


@router.get("/devices/{device_id}", response_model=DeviceView, responses=responses(ProblemKind.NOT_FOUND))
def get_device(device_id: Id, caller: DevicesReader, parts: PartsOf) -> Response:
    """One device."""
    return answer(DeviceView.of(_lanes_of(parts, device_id), with_names=_sees_names(caller)))


@router.get("/devices/{device_id}/history", response_model=DeviceHistory, responses=responses(ProblemKind.NOT_FOUND))
def get_history(device_id: Id, caller: DevicesReader, parts: PartsOf) -> Response:
    """Return the calibration of a device, its reference kernels in the last week, and changes of its lanes."""
    lanes = _lanes_of(parts, device_id)
    return answer(parts.store.lane_history.of_device(lanes, with_names=_sees_names(caller)))


@router.get("/workers", tags=["workers"], response_model=Page[WorkerView], responses=responses())
def list_workers(
    caller: DevicesReader,
    parts: PartsOf,
    device_class_id: IdFilter = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List lanes of workers with their health; only ``devices:admin`` sees host names."""
    paging = Paging("workers", page_size, page_token, {"device_class_id": device_class_id})
    requests = parts.store.lanes.requests()
    found = sorted(
        (
            WorkerView.of(lane, requests.get(lane.lane_id, LaneRequest.NONE), with_names=_sees_names(caller))
            for lane in parts.store.lanes.find(device_class_id)
        ),
        key=lambda view: view.worker_id,
    )
    behind = [view for view in found if paging.after is None or view.worker_id > paging.after]
    return answer(paging.page(behind, lambda view: view.worker_id, lambda view: view))


@router.get(
    "/workers/{worker_id}", tags=["workers"], response_model=WorkerView, responses=responses(ProblemKind.NOT_FOUND)
)
def get_worker(worker_id: Id, caller: DevicesReader, parts: PartsOf) -> Response:
    """One lane."""
    return answer(_view(parts, caller, _lane(parts, worker_id)))


@router.post("/devices/{device_id}:drain", response_model=DeviceView, responses=responses(ProblemKind.NOT_FOUND))
def drain_device(device_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Drain the device: its lanes finish their work and accept no more."""
    return _ask_device(parts, caller, device_id, LaneRequest.DRAIN)


@router.post("/devices/{device_id}:resume", response_model=DeviceView, responses=responses(ProblemKind.NOT_FOUND))
def resume_device(device_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Return the device's lanes to service."""
    return _ask_device(parts, caller, device_id, LaneRequest.RESUME)


@router.post("/devices/{device_id}:maintenance", response_model=DeviceView, responses=responses(ProblemKind.NOT_FOUND))
def maintain_device(device_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Drain the device and mark it as under maintenance."""
    return _ask_device(parts, caller, device_id, LaneRequest.MAINTENANCE)


@router.post("/devices/{device_id}:quarantine", response_model=DeviceView, responses=responses(ProblemKind.NOT_FOUND))
def quarantine_device(device_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Quarantine the device: its lanes take no work until it is resumed."""
    return _ask_device(parts, caller, device_id, LaneRequest.QUARANTINE)


@router.post(
    "/workers/{worker_id}:drain",
    tags=["workers"],
    response_model=WorkerView,
    responses=responses(ProblemKind.NOT_FOUND),
)
def drain_worker(worker_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Drain the lane: it finishes its work and accepts no more."""
    return _ask_worker(parts, caller, worker_id, LaneRequest.DRAIN)


@router.post(
    "/workers/{worker_id}:resume",
    tags=["workers"],
    response_model=WorkerView,
    responses=responses(ProblemKind.NOT_FOUND),
)
def resume_worker(worker_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Return the lane to service."""
    return _ask_worker(parts, caller, worker_id, LaneRequest.RESUME)


@router.post(
    "/workers/{worker_id}:maintenance",
    tags=["workers"],
    response_model=WorkerView,
    responses=responses(ProblemKind.NOT_FOUND),
)
def maintain_worker(worker_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Drain the lane and mark it as under maintenance."""
    return _ask_worker(parts, caller, worker_id, LaneRequest.MAINTENANCE)


@router.post(
    "/workers/{worker_id}:quarantine",
    tags=["workers"],
    response_model=WorkerView,
    responses=responses(ProblemKind.NOT_FOUND),
)
def quarantine_worker(worker_id: Id, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Quarantine the lane: it takes no work until it is resumed."""
    return _ask_worker(parts, caller, worker_id, LaneRequest.QUARANTINE)


def _ask_device(parts: Parts, caller: Caller, device_id: str, wanted: LaneRequest) -> Response:
    lanes = _lanes_of(parts, device_id)
    for lane in lanes:
        parts.store.lanes.request(lane.lane_id, wanted, token_id=caller.token.token_id)
    return answer(DeviceView.of(_lanes_of(parts, device_id), with_names=_sees_names(caller)))


def _ask_worker(parts: Parts, caller: Caller, worker_id: str, wanted: LaneRequest) -> Response:
    lane = _lane(parts, worker_id)
    parts.store.lanes.request(lane.lane_id, wanted, token_id=caller.token.token_id)
    return answer(_view(parts, caller, lane))


def _lanes_of(parts: Parts, device_id: str) -> list[Lane]:
    found = by_device(parts.store.lanes.find()).get(device_id)
    if not found:
        raise NotFound("device", device_id)
    return found


def _lane(parts: Parts, worker_id: str) -> Lane:
    for lane in parts.store.lanes.find():
        if worker_id_of(lane) == worker_id:
            return lane
    raise NotFound("worker", worker_id)


def _view(parts: Parts, caller: Caller, lane: Lane) -> WorkerView:
    requested = parts.store.lanes.requests().get(lane.lane_id, LaneRequest.NONE)
    return WorkerView.of(lane, requested, with_names=_sees_names(caller))


def _sees_names(caller: Caller) -> bool:
    return caller.may(Scope.DEVICES_ADMIN)
