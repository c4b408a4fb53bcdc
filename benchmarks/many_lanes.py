"""Many simulated lanes in one process: all of a worker's own code, without devices.

The process has one Celery consumer, which hands each order to the lane that has had room for the longest. Everything
else is every lane's own, as in a worker: what it holds, its heartbeats, answers and replies, with their connections.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

import structlog

from benchmarks.recorded_times import recorded_seconds
from benchmarks.simulated_lane import SimulatedFarm, simulated_device
from tunefarm.worker_blobs import WorkerBlobs
from tunefarm_schemas.broker import Broker
from tunefarm_schemas.device import Device
from tunefarm_schemas.farm_message import (
    CompareMessage,
    ExportMessage,
    Measured,
    MeasureMessage,
    Reply,
    Returned,
    TaskMissing,
    queue_name,
)
from tunefarm_services.settings import Settings
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.celery_worker.celery_intake import CeleryIntake
from tunefarm_workers.celery_worker.lane_host import LaneHost
from tunefarm_workers.celery_worker.lane_life import LaneFacts, LaneLife
from tunefarm_workers.celery_worker.lane_voice import LaneVoice
from tunefarm_workers.celery_worker.reply_sender import ReplySender
from tunefarm_workers.celery_worker.settings import WorkerSettings

STACK_BYTES: Final = 512 << 10
_CLOSING: Final = 16
_LOOK_S: Final = 1.0


class RecordedFarm(SimulatedFarm):
    """Each candidate takes as long as the recorded one of its number."""

    def __init__(self, device: Device, seconds: Sequence[float], room: int) -> None:
        super().__init__(device, 0.0, room)
        self._seconds = seconds

    def seconds_of(self, number: int) -> float:
        """The recorded time."""
        return self._seconds[number % len(self._seconds)]


@dataclass(frozen=True)
class SimulatedLane:
    """The parts of one lane."""

    host: LaneHost
    life: LaneLife
    voice: LaneVoice
    sender: ReplySender

    def start(self) -> None:
        """Begin to speak and to listen."""
        self.sender.start()
        self.host.start(lambda: None)
        self.voice.start()

    def close(self) -> None:
        """Say goodbye and end."""
        self.life.stop()
        self.host.take_work(False)
        self.life.end()
        self.host.close()
        self.voice.close()
        self.sender.close(1.0)


class ManyLanes:
    """Takes orders as a lane does, for all of them."""

    def __init__(self, broker: Broker, names: Sequence[str], room: int, stretch: float) -> None:
        self._free: SimpleQueue[SimulatedLane] = SimpleQueue()
        self._is_stopping = False
        self._room = room
        seconds = recorded_seconds(stretch)
        blobs = WorkerBlobs(BlobStore(Settings().blobs()))
        self._lanes = [self._lane(broker, blobs, name, seconds) for name in names]
        self._by_id = {lane.life.facts.lane_id: lane for lane in self._lanes}

    @property
    def queue(self) -> str:
        """The pool's queue."""
        facts = self._lanes[0].life.facts
        return queue_name(facts.device.device_class.device_class_id, facts.code_generator)

    def start(self) -> None:
        """Start all and wait until they are admitted."""
        for lane in self._lanes:
            lane.start()
        for lane in self._lanes:
            while not lane.life.admitted.wait(0.2):
                pass
            lane.voice.hurry()
        self._find_free()

    def measure(self, order: MeasureMessage) -> None:
        """Hand it to a lane with room; waits for one."""
        while not self._is_stopping:
            try:
                lane = self._free.get(timeout=_LOOK_S)
            except Empty:  # an order that came twice took a place and had no end
                self._find_free()
                continue
            if lane.host.in_flight < self._room:
                lane.host.measure(order)
                return

    def compare(self, order: CompareMessage) -> None:
        """Hand it to the first lane."""
        self._lanes[0].host.compare(order)

    def export(self, order: ExportMessage) -> None:
        """Hand it to the first lane."""
        self._lanes[0].host.export(order)

    def let_go(self) -> None:
        """Have ``measure`` return."""
        self._is_stopping = True

    def close(self) -> None:
        """End all."""
        with ThreadPoolExecutor(_CLOSING) as closing:
            list(closing.map(SimulatedLane.close, self._lanes))

    def _find_free(self) -> None:
        for place in range(self._room):
            for lane in self._lanes:
                if lane.host.in_flight <= place:
                    self._free.put(lane)

    def _lane(self, broker: Broker, blobs: WorkerBlobs, name: str, seconds: Sequence[float]) -> SimulatedLane:
        farm = RecordedFarm(simulated_device(), seconds, self._room)
        sender = ReplySender(broker)

        def send(farm_id: str, reply: Reply) -> None:
            sender.send(farm_id, reply)
            if isinstance(reply, Measured | Returned | TaskMissing):
                self._free.put(self._by_id[name])

        host = LaneHost(farm, blobs, send, name, None)
        life = LaneLife(_facts(farm, name))

        def beat() -> None:
            life.suffer("the device became slower than it was" if host.tell_suspects() else host.blobs_trouble())
            host.take_work(life.takes_work)

        voice = LaneVoice(broker, host, life.facts.instance, lambda: life.describe(host.in_flight), life.hear, beat)
        return SimulatedLane(host, life, voice, sender)


def _facts(farm: RecordedFarm, name: str) -> LaneFacts:
    return LaneFacts(
        lane_id=name,
        name=name,
        instance=f"{name} {os.getpid()}",
        device=farm.device,
        code_generator=farm.code_generator,
        kind="cpu",
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
    threading.stack_size(STACK_BYTES)
    broker = WorkerSettings().broker()
    names = [f"lane {options.first + number}" for number in range(options.lanes)]
    lanes = ManyLanes(broker, names, options.room, options.stretch)
    intake = CeleryIntake(broker, lanes.queue, lanes, names[0])
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()
        intake.stop()
        lanes.let_go()

    signal.signal(signal.SIGTERM, stop)
    lanes.start()
    while not stopping.is_set():
        intake.run()
        time.sleep(0.1)
    lanes.close()


if __name__ == "__main__":
    main()
