"""Many simulated lanes in one process: all of a worker's own code, without devices.

The process has one Celery consumer, which assigns each order to the lane that has had room the longest, and one thread
for each of results, replies, heartbeats and answers. Each lane has its own orders, heartbeats, answers and replies.
"""

import argparse
import heapq
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Final

import structlog

from benchmarks.comparison.recorded_times import recorded_seconds
from benchmarks.farm.simulated_lane import SimulatedFarm, simulated_device
from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_schemas.farm.farm_message import (
    COMPARE,
    EXPORT,
    MEASURE,
    CompareMessage,
    ExportMessage,
    Measured,
    MeasureMessage,
    Returned,
    TaskMissing,
    queue_name,
)
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import Device
from tunefarm_schemas.tuning.measurement import Dispatch
from tunefarm_services.settings import Settings
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.broker.celery_intake import CeleryIntake, Taker
from tunefarm_workers.broker.lane_heartbeat import BEAT_S, LaneVoice
from tunefarm_workers.broker.reply_sender import ReplySender
from tunefarm_workers.worker.lane_server import LaneServer
from tunefarm_workers.worker.lane_state import LaneFacts, LaneStatus
from tunefarm_workers.worker.settings import WorkerSettings

_POLL_S: Final = 1.0
_RETRY_S: Final = 0.5


class RecordedFarm(SimulatedFarm):
    """A farm where each candidate takes the recorded time of its number."""

    def __init__(self, device: Device, seconds: Sequence[float], room: int, wake: Callable[[float], None]) -> None:
        """``wake`` is called with the time at which a candidate will be done."""
        super().__init__(device, 0.0, room)
        self._seconds = seconds
        self._wake = wake

    def submit(self, dispatch: Dispatch) -> None:
        """Queue a candidate."""
        super().submit(dispatch)
        self._wake(self._free_s)

    def seconds_of(self, number: int) -> float:
        """The recorded time."""
        return self._seconds[number % len(self._seconds)]


@dataclass(frozen=True)
class SimulatedLane:
    """The parts of one lane."""

    farm: RecordedFarm
    server: LaneServer
    life: LaneStatus
    voice: LaneVoice


class ManyLanes:
    """Receives orders for all its lanes."""

    def __init__(self, broker: Broker, names: Sequence[str], room: int, stretch: float) -> None:
        self._broker = broker
        self._free: SimpleQueue[SimulatedLane] = SimpleQueue()
        self._room = room
        self._seconds = recorded_seconds(stretch)
        self._blobs = WorkerBlobs(BlobStore(Settings().blobs()))
        self._sender = ReplySender(broker)
        self._due: list[tuple[float, int, int]] = []
        self._order = count()
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._is_subscribed = threading.Event()
        self._lanes = [self._lane(index, name) for index, name in enumerate(names)]
        works = (self._collect, self._send_heartbeats, self._listen)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    @property
    def queue(self) -> str:
        """The pool's queue."""
        facts = self._lanes[0].life.facts
        return queue_name(facts.device.device_class.device_class_id, facts.code_generator)

    def start(self) -> None:
        """Start all lanes and wait until they are admitted."""
        self._sender.start()
        for thread in self._threads:
            thread.start()
        for lane in self._lanes:
            while not lane.life.admitted.wait(_POLL_S) and not self._ended.is_set():
                pass
        self._find_free()

    def takers(self) -> dict[str, Taker[Any]]:
        """The handlers of orders."""
        return {
            MEASURE: Taker(MeasureMessage, self.measure),
            COMPARE: Taker(CompareMessage, self.compare),
            EXPORT: Taker(ExportMessage, self.export),
        }

    def measure(self, order: MeasureMessage) -> None:
        """Pass the order to a lane with room; wait until there is one."""
        while not self._ended.is_set():
            try:
                lane = self._free.get(timeout=_POLL_S)
            except Empty:  # a repeated order occupied a place without a result
                self._find_free()
                continue
            if lane.server.in_flight < self._room:
                lane.server.measure(order)
                return

    def compare(self, order: CompareMessage) -> None:
        """Pass the order to the first lane."""
        self._lanes[0].server.compare(order)

    def export(self, order: ExportMessage) -> None:
        """Pass the order to the first lane."""
        self._lanes[0].server.export(order)

    def stop(self) -> None:
        """Make ``measure`` return, and end the threads."""
        self._ended.set()

    def close(self) -> None:
        """Send the final heartbeat of every lane."""
        for thread in self._threads:
            thread.join()
        client = connect(self._broker)
        for lane in self._lanes:
            lane.life.stop()
            lane.life.end()
            lane.voice.beat(client, at_once=True)
            lane.server.close()
        self._sender.close(2.0)
        client.close()

    def _find_free(self) -> None:
        for place in range(self._room):
            for lane in self._lanes:
                if lane.server.in_flight <= place:
                    self._free.put(lane)

    def _collect(self) -> None:
        """Deliver results when they are due."""
        while not self._ended.is_set():
            with self._changed:
                wait_s = self._due[0][0] - time.monotonic() if self._due else _POLL_S
                if wait_s > 0:
                    self._changed.wait(min(wait_s, _POLL_S))
                    continue
                _, _, index = heapq.heappop(self._due)
            lane = self._lanes[index]
            for measurement in lane.farm.collect(0.0):
                lane.server.deliver(measurement)

    def _send_heartbeats(self) -> None:
        """Send the heartbeats of all lanes one after the other, each once a second."""
        client = connect(self._broker)
        self._is_subscribed.wait(_POLL_S)  # otherwise the first answers are missed
        while not self._ended.is_set():
            round_s = time.monotonic()
            for index, lane in enumerate(self._lanes, 1):
                lane.voice.beat(client)
                self._ended.wait(max(round_s + index * BEAT_S / len(self._lanes) - time.monotonic(), 0.0))
        client.close()

    def _listen(self) -> None:
        by_channel: dict[str, list[SimulatedLane]] = defaultdict(list)
        for lane in self._lanes:
            for channel in lane.voice.channels():
                by_channel[channel].append(lane)
        while not self._ended.is_set():
            client = connect(self._broker)
            try:
                with client.pubsub(ignore_subscribe_messages=True) as heard:  # type: ignore[no-untyped-call]
                    heard.subscribe(*by_channel)
                    self._is_subscribed.set()
                    while not self._ended.is_set():
                        message = heard.get_message(timeout=_POLL_S)
                        channel = "" if message is None else message["channel"].decode()
                        for lane in by_channel.get(channel, ()):
                            lane.voice.hear(channel, message["data"])
            except BROKER_ERRORS:
                self._ended.wait(_RETRY_S)
            finally:
                client.close()

    def _lane(self, index: int, name: str) -> SimulatedLane:
        def wake(due_s: float) -> None:
            with self._changed:
                heapq.heappush(self._due, (due_s, next(self._order), index))
                if self._due[0][0] == due_s:
                    self._changed.notify()

        farm = RecordedFarm(simulated_device(), self._seconds, self._room, wake)

        def send(farm_id: str, reply: Frozen) -> None:
            self._sender.send(farm_id, reply)
            if isinstance(reply, Measured | Returned | TaskMissing):
                self._free.put(self._lanes[index])

        server = LaneServer(farm, self._blobs, send, name, None)
        life = LaneStatus(_facts(farm, name))

        def beat() -> None:
            life.set_trouble(server.check_health())
            server.take_work(life.takes_work)

        describe = lambda: life.describe(server.in_flight)  # noqa: E731 - as in a worker
        voice = LaneVoice(self._broker, server, life.facts.instance, describe, life.receive, beat)
        return SimulatedLane(farm, server, life, voice)


def _facts(farm: RecordedFarm, name: str) -> LaneFacts:
    return LaneFacts(
        lane_id=name,
        name=name,
        instance=f"{name} {os.getpid()}",
        device=farm.device,
        code_generator=farm.code_generator,
        kind="cpu",
        processor=farm.processor,
        tvm_version="none",
        software_version="none",
        cores=(0,),
        room=farm.room(),
    )


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first lane")
    parser.add_argument("--room", type=int, default=3)
    parser.add_argument("--stretch", type=float, default=1.0)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    broker = WorkerSettings().broker()
    names = [f"lane {options.first + number}" for number in range(options.lanes)]
    lanes = ManyLanes(broker, names, options.room, options.stretch)
    intake = CeleryIntake(broker, lanes.queue, lanes.takers(), names[0])
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()
        intake.stop()
        lanes.stop()

    signal.signal(signal.SIGTERM, stop)
    lanes.start()
    while not stopping.is_set():
        intake.run()
        time.sleep(0.1)
    lanes.close()


if __name__ == "__main__":
    main()
