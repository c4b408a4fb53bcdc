"""The contract of all stores for the history of lanes: changes of state, requests, times of reference kernels."""

import pytest
from sqlalchemy import create_engine, text

from tests.contract.store.test_store_farm import lane
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.lane import Lane, LaneRequest, LaneState, ReferenceCheck
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.views.device import device_id_of, worker_id_of
from tunefarm_services.store import RetentionPolicy, Store
from tunefarm_services.store.catalog.lane_history_repository import INTERVAL_S, KEPT_PER_LANE, KEPT_S

DEVICE_ID = device_id_of(lane())
SLOW = "the device became slower than it was"


def checked(compute_s: float = 1e-3, lane_id: str = "host/0") -> Lane:
    times = ReferenceKernelTimes(compute_s=compute_s, bandwidth_s=2e-3, launch_s=1e-5)
    return lane(lane_id, last_check=ReferenceCheck(times=times, checked_at=utc_now()))


def states(store: Store) -> list[tuple[str, str]]:
    return [(change.value, change.reason) for change in store.lane_history.changes(DEVICE_ID)]


def test_quarantine_is_kept_with_its_reason_and_its_end(store: Store) -> None:
    store.lanes.put(lane())
    store.lanes.put(lane(state=LaneState.QUARANTINED, reason=SLOW))
    store.lanes.put(lane(state=LaneState.QUARANTINED, reason=SLOW))
    store.lanes.put(lane(state=LaneState.BUSY))
    assert states(store) == [("ready", ""), ("quarantined", SLOW), ("ready", "")]
    moments = [change.at for change in store.lane_history.changes(DEVICE_ID)]
    assert moments == sorted(moments, reverse=True)


def test_lane_that_is_busy_in_between_has_not_changed(store: Store) -> None:
    for state in (LaneState.READY, LaneState.BUSY) * 3:
        store.lanes.put(lane(state=state))
    assert states(store) == [("ready", "")]


def test_lost_lanes_and_requests_are_kept_with_who_asked(store: Store) -> None:
    store.lanes.put(lane())
    store.lanes.request("host/0", LaneRequest.DRAIN, token_id="token of alice")
    assert [each.lane_id for each in store.lanes.mark_lost(-1.0)] == ["host/0"]
    lost, drain, _ = store.lane_history.changes(DEVICE_ID)
    assert (lost.kind, lost.value, "no heartbeat" in lost.reason) == ("state", "lost", True)
    assert (drain.kind, drain.value, drain.token_id) == ("request", "drain", "token of alice")
    assert drain.worker_id == worker_id_of(lane())


def test_history_of_a_lane_is_bounded_and_that_of_another_stays(store: Store) -> None:
    store.lanes.put(lane("host/1"))
    for _ in range(KEPT_PER_LANE // 2 + 10):
        store.lanes.put(lane(state=LaneState.QUARANTINED, reason=SLOW))
        store.lanes.put(lane())
    changes = store.lane_history.changes(DEVICE_ID, 10 * KEPT_PER_LANE)
    assert sum(each.worker_id == worker_id_of(lane()) for each in changes) == KEPT_PER_LANE
    assert changes[0].value == "ready"
    assert sum(each.worker_id == worker_id_of(lane("host/1")) for each in changes) == 1


def test_reference_kernels_are_sampled_once_an_interval_for_a_week(store: Store, database_url: str) -> None:
    store.lanes.put_all([checked(1e-3), checked(1e-3, "host/1")])
    store.lanes.put(checked(5e-3))
    store.lanes.put(lane())
    (sample,) = store.lane_history.samples(DEVICE_ID)
    assert sample.times.compute_s == pytest.approx(1e-3)
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        shift = int(KEPT_S / INTERVAL_S) + 1
        connection.execute(text(f"UPDATE reference_samples SET interval_number = interval_number - {shift}"))
    engine.dispose()
    store.lanes.put(checked(3e-3))
    assert [each.times.compute_s for each in store.lane_history.samples(DEVICE_ID)] == [pytest.approx(3e-3)]


@pytest.mark.parametrize(
    ("checked_at", "compute_s"),
    [
        ("2020-01-01T00:00:00+00:00", 1e-3),
        ("2999-01-01T00:00:00+00:00", 1e-3),
        ("yesterday", 1e-3),
        ("", float("nan")),
        ("", float("inf")),
        ("", -1.0),
    ],
)
def test_implausible_checks_are_not_sampled_and_stop_no_heartbeat(
    store: Store, checked_at: str, compute_s: float
) -> None:
    times = ReferenceKernelTimes(compute_s=compute_s, bandwidth_s=2e-3, launch_s=1e-5)
    check = ReferenceCheck(times=times, checked_at=checked_at or utc_now())
    store.lanes.put_all([lane(last_check=check), checked(lane_id="host/1")])
    assert len(store.lanes.find()) == 2
    (sample,) = store.lane_history.samples(DEVICE_ID)
    assert sample.times.compute_s == pytest.approx(1e-3)


def test_reason_of_a_lane_is_kept_without_what_no_database_holds(store: Store) -> None:
    store.lanes.put(lane(state=LaneState.QUARANTINED, reason="slow\0" + "x" * 10_000))
    (change,) = store.lane_history.changes(DEVICE_ID)
    assert change.reason.startswith("slowx")
    assert len(change.reason) == 500


def test_retention_forgets_lanes_that_are_gone(store: Store, database_url: str) -> None:
    store.lanes.put(checked())
    store.lanes.put(checked(lane_id="host/1"))
    store.lanes.put(lane("host/1", LaneState.LOST))
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("UPDATE lanes SET heard_s = 0"))
        connection.execute(text("UPDATE lane_changes SET at_s = 0"))
        connection.execute(text("UPDATE reference_samples SET interval_number = 0"))
    engine.dispose()
    assert store.retention.apply(RetentionPolicy(lanes_days=1)).lanes == 1
    assert {each.worker_id for each in store.lane_history.changes(DEVICE_ID)} == {worker_id_of(lane())}
    assert store.lane_history.samples(DEVICE_ID) == []


def test_device_history_hides_who_asked_from_others(store: Store) -> None:
    store.lanes.put(checked())
    store.lanes.request("host/0", LaneRequest.DRAIN, token_id="token of alice")
    lanes = store.lanes.find()
    shown, hidden = (store.lane_history.of_device(lanes, with_names=names) for names in (True, False))
    assert shown.changes[0].token_id == "token of alice"
    assert hidden.changes[0].token_id is None
    assert (shown.reference, len(shown.samples)) == (lane().device.reference, 1)
