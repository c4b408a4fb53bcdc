"""Whoever spoke and was not heard yet is not taken for silent."""

import time
from pathlib import Path

from sqlalchemy import text

from tests.contract.store.test_store_farm import lane
from tests.farm.workers import dispatch_of, simulated_task
from tests.servers.redis_server import RedisServer
from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import HEARTBEATS, Heartbeat, Holding
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm_state import FarmState
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar

LANES = 600
LOST_S = 60.0


def let_time_pass(registrar: LaneRegistrar, store: Store) -> None:
    """As if nothing had been heard of any lane for twice as long as it may be silent."""
    assert registrar._listening_since_s is not None
    registrar._listening_since_s -= 2 * LOST_S
    with store._database.writing() as connection:
        connection.execute(text("UPDATE lanes SET heard_s = heard_s - :s"), {"s": 2 * LOST_S})


def test_lanes_whose_heartbeats_wait_behind_others_are_not_lost(broker: RedisServer, store: Store):
    """A registrar that was held up hears them by and by; all were silent for too long until it does."""
    lanes = [lane(f"host/{number}") for number in range(LANES)]
    registrar = LaneRegistrar(store, broker.url, tvm_version=None, lost_s=LOST_S)
    with broker.client() as client:
        registrar.hear(client)
        store.lanes.put_all(lanes)
        let_time_pass(registrar, store)
        beats = [Heartbeat(lane_id=each.lane_id, instance="life", lane=each).model_dump_json() for each in lanes]
        client.lpush(Broker.at(broker.url).key(HEARTBEATS), *beats)
        rounds = 0
        while client.llen(Broker.at(broker.url).key(HEARTBEATS)):
            registrar.hear(client)
            rounds += 1
            assert {found.state for found in store.lanes.find()} == {LaneState.READY}
    assert rounds > 1


def test_a_lane_that_says_nothing_more_is_lost(broker: RedisServer, store: Store):
    registrar = LaneRegistrar(store, broker.url, tvm_version=None, lost_s=LOST_S)
    with broker.client() as client:
        registrar.hear(client)
        store.lanes.put(lane())
        let_time_pass(registrar, store)
        registrar.hear(client)
    assert [found.state for found in store.lanes.find()] == [LaneState.LOST]


def test_what_a_lane_holds_is_lost_only_once_all_its_words_were_heard(tmp_path: Path):
    outbox = MeasurementOutbox()
    state = FarmState(BlobStore(tmp_path), outbox, RedeliveryPolicy(lane_s=5.0), "job")
    dispatch = dispatch_of()
    state.open_task(simulated_task())
    state.submit(dispatch)
    began_s = time.monotonic()
    assert len(state.next_messages(1, 1)) == 1
    state.hear(b"1-0", Holding(lane_id="lane", instance="life", ids=(dispatch.dispatch_id,)))
    for heard_until_s, is_lost in ((None, False), (began_s + 4.0, False), (began_s + 600.0, True)):
        if heard_until_s is not None:
            state.heard_all(heard_until_s)
        state.look_for_lost(queue_is_empty=True)
        assert bool(outbox.take(0.0, lambda: None)) is is_lost
    outbox.close()
