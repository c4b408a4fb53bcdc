"""Lanes and orders are not lost while their messages wait unread."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.contract.store.test_store_farm import lane
from tests.farm.workers import dispatch_of, simulated_task
from tests.servers.redis_server import RedisServer
from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.bad_input import UnverifiableFunction
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import (
    HEARTBEATS,
    Cancellation,
    ExportEnded,
    Heartbeat,
    Holding,
    Unverifiable,
)
from tunefarm_schemas.farm.lane import LaneState
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_schemas.tuning.measurement import ExportOrder
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm import lane_registrar
from tunefarm_services.tuner.farm.farm_replies import FarmReplies
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar
from tunefarm_workers.broker.accepted_orders import MAX_FARMS, AcceptedOrder, AcceptedOrders

LANES = 600
LOST_S = 60.0


def let_time_pass(registrar: LaneRegistrar, store: Store) -> None:
    """Date all heartbeats back by twice the time after which a lane is lost."""
    assert registrar._listening_since_s is not None
    registrar._listening_since_s -= 2 * LOST_S
    with store.database.writing() as connection:
        connection.execute(text("UPDATE lanes SET heard_s = heard_s - :s"), {"s": 2 * LOST_S})


def test_lanes_with_unread_heartbeats_are_not_lost(broker: RedisServer, store: Store):
    """A delayed registrar reads the heartbeats in batches; every lane's last one read is too old until then."""
    lanes = [lane(f"host/{number}") for number in range(LANES)]
    registrar = LaneRegistrar(store.lanes, broker.url, tvm_version=None, lost_s=LOST_S)
    with broker.client() as client:
        registrar.process(client)
        store.lanes.put_all(lanes)
        let_time_pass(registrar, store)
        beats = [Heartbeat(lane_id=each.lane_id, instance="life", lane=each).model_dump_json() for each in lanes]
        client.lpush(Broker.at(broker.url).key(HEARTBEATS), *beats)
        rounds = 0
        while client.llen(Broker.at(broker.url).key(HEARTBEATS)):
            registrar.process(client)
            rounds += 1
            assert {found.state for found in store.lanes.find()} == {LaneState.READY}
    assert rounds > 1


def test_heartbeat_with_nul_stops_no_other(broker: RedisServer, store: Store):
    """PostgreSQL cannot store NUL; heartbeats are stored in batches."""
    good = lane("host/0")
    texts = [
        Heartbeat(lane_id=lane_id, instance="life", lane=good.model_copy(update={"lane_id": lane_id})).model_dump_json()
        for lane_id in ("host/\0", good.lane_id)
    ]
    with broker.client() as client:
        client.lpush(Broker.at(broker.url).key(HEARTBEATS), *texts)
        LaneRegistrar(store.lanes, broker.url, tvm_version=None, lost_s=LOST_S).process(client)
    assert [found.lane_id for found in store.lanes.find()] == [good.lane_id]


def test_silent_lane_is_lost(broker: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lane_registrar, "_WAIT_S", 0.1)
    registrar = LaneRegistrar(store.lanes, broker.url, tvm_version=None, lost_s=LOST_S)
    with broker.client() as client:
        registrar.process(client)
        store.lanes.put(lane())
        let_time_pass(registrar, store)
        registrar.process(client)
    assert [found.state for found in store.lanes.find()] == [LaneState.LOST]


def test_orders_are_lost_only_after_replies_are_read(tmp_path: Path):
    outbox = MeasurementOutbox()
    state = FarmReplies(BlobStore(tmp_path), outbox, RedeliveryPolicy(lane_s=5.0), "job", lambda: 1)
    dispatch = dispatch_of()
    state.open_task(simulated_task())
    state.submit(dispatch)
    began_s = time.monotonic()
    assert len(state.next_orders(1)) == 1
    state.receive(b"1-0", Holding(lane_id="lane", instance="life", ids=(dispatch.dispatch_id,)))
    for read_until_s, is_lost in ((began_s, False), (began_s + 4.0, False), (began_s + 600.0, True)):
        state.find_lost(read_until_s, queue_is_empty=True)
        assert bool(outbox.take(0.0, lambda: None)) is is_lost
    outbox.close()


def test_report_of_an_unverifiable_function_names_its_exploration(tmp_path: Path):
    outbox = MeasurementOutbox()
    state = FarmReplies(BlobStore(tmp_path), outbox, RedeliveryPolicy(), "job", lambda: 1)
    task = simulated_task()
    state.open_task(task)
    exploration_id = task.exploration_id
    odd = Unverifiable(lane_id="host/0", exploration_id=exploration_id, field="module", problem="Odd.", fix="Even it.")
    state.receive(b"1-0", odd)
    with pytest.raises(UnverifiableFunction, match="Odd") as raised:
        outbox.take(0.0, lambda: None)
    assert raised.value.exploration_id == exploration_id
    outbox.close()


def test_sender_does_not_wait_while_a_library_is_fetched(tmp_path: Path):
    waited: list[bool] = []

    class SlowBlobs(BlobStore):
        """Fetches while the sender asks for messages."""

        def get(self, blob_digest: str) -> bytes:
            sender = threading.Thread(target=lambda: state.next_orders(1), daemon=True)
            sender.start()
            sender.join(30.0)
            waited.append(sender.is_alive())
            return super().get(blob_digest)

    blobs, outbox = SlowBlobs(tmp_path), MeasurementOutbox()
    state = FarmReplies(blobs, outbox, RedeliveryPolicy(), "job", lambda: 1)
    state.open_task(simulated_task())
    ident, answer = state.ask(ExportOrder(exploration_id="exploration", trace=None))
    ended = ExportEnded(
        lane_id="lane",
        order_id=ident,
        library_digest=blobs.put(b"library"),
        entry="main",
        process_latencies_s=(1e-3,),
    )
    state.receive(b"1-0", ended)
    assert waited == [False]
    assert answer.result(0.0).library == b"library"
    outbox.close()


def test_lane_remembers_cancelations_of_the_latest_farms():
    orders = AcceptedOrders(lambda _farm_id, _reply: None)
    for number in range(MAX_FARMS + 10):
        orders.cancel(Cancellation(farm_id=str(number), epoch=1))
    latest = AcceptedOrder("order", str(MAX_FARMS + 9), 1, "job", "exploration", None)
    assert orders.is_canceled(latest)
    assert len(orders._canceled_epochs) == MAX_FARMS
