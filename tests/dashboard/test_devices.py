"""Pages of devices: drift, history, and requests to lanes."""

import re

from fastapi import FastAPI

from tests.api.people import person_of
from tests.api.stored import lane
from tests.dashboard.viewers import logged_in
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.lane import LaneRequest, LaneState, ReferenceCheck
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.views.device import ReferenceSample, device_id_of, worker_id_of
from tunefarm_services.dashboard.drawings.drift_plot import drift_plots
from tunefarm_services.store import Store

DEVICE = f"/dashboard/devices/{device_id_of(lane())}"
HOSTILE = "<img src=x onerror=alert(1)>"


def put_quarantined(store: Store) -> None:
    reference = lane().device.reference
    slower = reference.model_copy(update={"compute_s": 3 * reference.compute_s})
    check = ReferenceCheck(times=slower, checked_at=utc_now())
    store.lanes.put(lane())
    quarantined = {"state": LaneState.QUARANTINED, "reason": HOSTILE, "last_check": check}
    store.lanes.put(lane().model_copy(update=quarantined))


def test_device_shows_drift_history_and_calibration(app: FastAPI, store: Store) -> None:
    put_quarantined(store)
    page = logged_in(app, store, "alice", (Scope.JOBS_READ, Scope.DEVICES_READ)).get(DEVICE).text
    assert "Compute: 3.00 now, 3.00 at worst" in page
    assert page.count("<polyline") == 3
    assert "quarantined" in page
    assert "&lt;img" in page
    assert HOSTILE not in page
    assert "secret-host" not in page
    assert "<button" not in page.split("<main")[1]


def test_one_lane_is_asked_and_the_history_says_by_whom(app: FastAPI, store: Store) -> None:
    store.lanes.put(lane())
    store.lanes.put(lane("host-7/cpu-1"))
    operator = logged_in(app, store, "operator")
    path = f"{DEVICE}/lanes/{worker_id_of(lane())}/drain"
    assert path in operator.get(DEVICE).text
    answer = operator.submit(path, {"form_key": operator.form_key()})
    assert (answer.status_code, answer.headers["location"]) == (303, DEVICE)
    assert store.lanes.requests() == {lane().lane_id: LaneRequest.DRAIN}
    shown = operator.get(DEVICE).text
    assert "drain requested" in shown
    assert re.search(r"token <code>[0-9a-f]{16}</code>", shown)
    assert operator.submit(f"{DEVICE}/resume", {"form_key": operator.form_key()}).status_code == 303
    assert set(store.lanes.requests().values()) == {LaneRequest.RESUME}


def test_requests_need_the_scope_the_key_and_an_own_lane(app: FastAPI, store: Store) -> None:
    store.lanes.put(lane())
    operator, reader = (
        logged_in(app, store, "operator"),
        logged_in(app, store, "alice", (Scope.JOBS_READ, Scope.DEVICES_READ)),
    )
    path = f"{DEVICE}/lanes/{worker_id_of(lane())}/drain"
    assert reader.submit(path, {"form_key": reader.form_key()}).status_code == 403
    assert operator.submit(path, {}).status_code == 403
    key = {"form_key": operator.form_key()}
    assert operator.submit(path, key, Origin="https://evil.example").status_code == 403
    assert operator.submit(f"{DEVICE}/lanes/0123456789abcdef/drain", key).status_code == 404
    assert operator.submit(f"{DEVICE}/lanes/{worker_id_of(lane())}/explode", key).status_code == 404
    assert operator.get("/dashboard/devices/0123456789abcdef").status_code == 404
    assert store.lanes.requests() == {}


def test_history_is_the_same_over_the_api(app: FastAPI, store: Store) -> None:
    put_quarantined(store)
    reader = person_of(app, store, "alice", [Scope.DEVICES_READ])
    answer = reader.get(f"/v1/devices/{device_id_of(lane())}/history")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [each["value"] for each in found["changes"]] == ["quarantined", "ready"]
    assert len(found["samples"]) == 1
    assert "secret-host" not in answer.text
    assert "host-7" not in answer.text
    assert reader.get("/v1/devices/0123456789abcdef/history").status_code == 404


def test_devices_and_lanes_are_quarantined_over_the_api(app: FastAPI, store: Store) -> None:
    store.lanes.put(lane())
    operator, reader = person_of(app, store, "operator"), person_of(app, store, "alice", [Scope.DEVICES_READ])
    for path in (f"/v1/devices/{device_id_of(lane())}", f"/v1/workers/{worker_id_of(lane())}"):
        assert reader.post(f"{path}:quarantine").status_code == 403
        assert operator.post(f"{path}:quarantine").status_code == 200
        assert store.lanes.requests() == {lane().lane_id: LaneRequest.QUARANTINE}
        operator.post(f"{path}:resume")


def test_drift_is_drawn_as_ratios_from_the_oldest_to_the_newest() -> None:
    times = ReferenceKernelTimes(compute_s=1.0, bandwidth_s=2.0, launch_s=3.0)
    samples = [
        ReferenceSample(at=f"2027-01-01T00:0{minute}:00+00:00", times=times.model_copy(update={"compute_s": ratio}))
        for minute, ratio in ((0, 1.0), (5, 2.0))
    ]
    compute, bandwidth, _ = drift_plots(times, samples)
    assert (compute.latest, compute.worst, bandwidth.worst) == (2.0, 2.0, 1.0)
    first, last = (tuple(map(float, point.split(","))) for point in compute.points.split(" "))
    assert first[0] < last[0]
    assert first[1] > last[1]  # slower is higher
    assert first[1] == compute.calibrated_y
    assert drift_plots(times, []) == []
