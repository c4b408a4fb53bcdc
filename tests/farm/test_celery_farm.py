"""The farm behind a broker, with real Redis and real worker processes with simulated devices."""

import signal
import threading
import time
from collections.abc import Callable

import pytest

from benchmarks.kernel_library import kernel_library
from tests.farm.conftest import LONG_TIMES, MISBEHAVING
from tests.farm.workers import (
    PATIENT_S,
    Worker,
    await_ready,
    dispatch_of,
    eventually,
    gather,
    has_state,
    lane_of,
    reason_of,
    registrar,
    simulated_task,
)
from tests.servers.redis_server import RedisServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.lane import LaneRequest, LaneState
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Exported, ExportOrder, Failed, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store import Store
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm

OpenFarm = Callable[..., CeleryFarm]
StartWorker = Callable[..., Worker]


def test_farm_spreads_candidates_and_returns_each_once(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    first, second = start_worker("first", TUNEFARM_SIMULATED_SECONDS="0.02"), start_worker("second")
    with registrar(store, broker.url, lost_s=PATIENT_S):
        await_ready(store, first, second)
        farm = open_farm(policy=LONG_TIMES)
        assert farm.room() == 32
        farm.open_task(simulated_task())
        dispatches = [dispatch_of(f"trace {number}") for number in range(100)]
        for dispatch in dispatches:
            farm.submit(dispatch)
        found = gather(farm, 100)
        assert found.keys() == {dispatch.dispatch_id for dispatch in dispatches}
        assert all(isinstance(measurement.result, Timing) for measurement in found.values())
        # On a slow host one lane may take all of the first batch, which takes only a second.
        lanes = {measurement.device_fingerprint for measurement in found.values()}
        until_s = time.monotonic() + 60.0
        while len(lanes) < 2 and time.monotonic() < until_s:
            for _ in range(100):
                farm.submit(dispatch_of())
            lanes |= {measurement.device_fingerprint for measurement in gather(farm, 100).values()}
        assert len(lanes) == 2

        compared = farm.compare(
            ComparisonOrder(exploration_id="exploration", traces=(Trace(text="a"), None)), lambda: True
        )
        assert [type(result) for result in compared.results] == [Timing, Timing]
        exported = farm.export(ExportOrder(exploration_id="exploration", trace=Trace(text="a")), lambda: True)
        assert isinstance(exported, Exported)
        assert exported.library == kernel_library()

        eventually(lambda: broker.client().xlen(f"tunefarm.replies.{farm.farm_id}") == 0, what="forgetting")
        assert first.stop() == 0
        eventually(lambda: has_state(store, "first", LaneState.DRAINED), what="goodbye")


@pytest.mark.faults
def test_cancel_all_is_prompt_and_limited_to_its_farm(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    # The orders to cancel wait behind eight seconds of other work, and would take forty seconds.
    worker = start_worker("lane", TUNEFARM_SIMULATED_SECONDS="2")
    with registrar(store, broker.url, lost_s=PATIENT_S):
        await_ready(store, worker)
        farm, other = open_farm(policy=LONG_TIMES), open_farm(policy=LONG_TIMES)
        farm.open_task(simulated_task())
        other.open_task(simulated_task("another"))
        kept = [dispatch_of(exploration_id="another") for _ in range(4)]
        for dispatch in kept:
            other.submit(dispatch)
        eventually(lambda: has_state(store, "lane", LaneState.BUSY), what="taking")
        for _ in range(20):
            farm.submit(dispatch_of())
        farm.cancel_all()
        found = gather(farm, 20)
        assert {reason_of(measurement) for measurement in found.values()} == {FailureReason.CANCELED}
        assert {reason_of(measurement) for measurement in gather(other, 4).values()} == {None}

        farm.submit(dispatch_of())
        assert reason_of(next(iter(gather(farm, 1).values()))) is None, "a later order is not canceled"
        began_s = time.monotonic()
        # All take more than an hour: without the cancellation, the time limit of the test ends it.
        order = ComparisonOrder(exploration_id="exploration", traces=(None,) * 2000)
        compared = farm.compare(order, lambda: time.monotonic() < began_s + 0.5)
        assert {type(result) for result in compared.results} == {Failed}


@pytest.mark.faults
def test_lane_drains_and_resumes_on_request(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    first, second = start_worker("first"), start_worker("second")
    with registrar(store, broker.url):
        await_ready(store, first, second)
        farm = open_farm()
        farm.open_task(simulated_task())
        store.lanes.request(lane_of(store, "first").lane_id, LaneRequest.DRAIN)
        eventually(lambda: has_state(store, "first", LaneState.DRAINED), what="draining")
        time.sleep(1.5)
        fingerprints = set()
        for _ in range(30):
            farm.submit(dispatch_of())
        fingerprints = {measurement.device_fingerprint for measurement in gather(farm, 30).values()}
        assert fingerprints == {lane_of(store, "second").device.fingerprint}
        store.lanes.request(lane_of(store, "first").lane_id, LaneRequest.RESUME)
        eventually(lambda: has_state(store, "first", LaneState.READY), what="coming back")


@pytest.mark.faults
def test_slow_device_is_quarantined_with_suspect_results(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    worker = start_worker("lane", MISBEHAVING)
    with registrar(store, broker.url, lost_s=PATIENT_S):
        await_ready(store, worker)
        farm = open_farm(policy=LONG_TIMES)
        farm.open_task(simulated_task())
        farm.submit(dispatch_of())
        found = gather(farm, 1)
        worker.process.send_signal(signal.SIGUSR1)
        suspects = []
        eventually(lambda: suspects.extend(farm.suspects()) or suspects, what="suspicion")
        assert [suspect.dispatch_id for suspect in suspects] == list(found)
        eventually(lambda: has_state(store, "lane", LaneState.QUARANTINED), what="quarantine")
        assert "slower" in lane_of(store, "lane").reason


@pytest.mark.faults
def test_comparison_waits_for_end_of_quarantine(
    broker: RedisServer, store: Store, open_farm: OpenFarm, start_worker: StartWorker
):
    worker = start_worker("lane", MISBEHAVING, TUNEFARM_SIMULATED_SECONDS="0.5")
    with registrar(store, broker.url):
        await_ready(store, worker)
        farm = open_farm()
        farm.open_task(simulated_task())
        order = ComparisonOrder(exploration_id="exploration", traces=(None,) * 8)
        answers: list[Comparison] = []
        asking = threading.Thread(target=lambda: answers.append(farm.compare(order, lambda: True)))
        asking.start()
        eventually(lambda: has_state(store, "lane", LaneState.BUSY), what="taking")
        worker.process.send_signal(signal.SIGUSR1)
        eventually(lambda: lane_is_empty(store), what="giving back")
        assert has_state(store, "lane", LaneState.QUARANTINED)
        assert not answers
        worker.process.send_signal(signal.SIGUSR2)
        asking.join(30)
        assert [type(result) for result in answers[0].results] == [Timing] * 8


def lane_is_empty(store: Store) -> bool:
    lane = lane_of(store, "lane")
    return lane.state is LaneState.QUARANTINED and lane.in_flight == 0


@pytest.mark.faults
def test_worker_with_other_tvm_version_is_refused(broker: RedisServer, store: Store, start_worker: StartWorker):
    with registrar(store, broker.url, tvm_version="0.99", lost_s=PATIENT_S):
        worker = start_worker("old")
        assert worker.process.wait(90) == 2
    assert "the tuner 0.99" in worker.said()
    lane = lane_of(store, "old")
    assert lane.state is LaneState.REFUSED
    assert "0.99" in lane.reason
