"""Hears the lanes of the farm, writes them down, and tells each what is asked of it."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import redis
import structlog
from pydantic import ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import HEARTBEATS, MESSAGE_VERSION, Heartbeat, LaneAnswer, lane_channel
from tunefarm_schemas.farm.lane import Lane, LaneRequest, LaneState
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.tuner.farm.broker_client import BROKER_ERRORS, connect

LOST_S: Final = 10.0
"""A lane that was silent for so long is lost."""
ASK_STORE_S: Final = 1.0
SWEEP_S: Final = 2.0
GATHER_S: Final = 0.05
"""So long it lets more heartbeats come before it writes again: a transaction for each would cost ten times as much."""
_AT_ONCE: Final = 256
_WAIT_S: Final = 1.0
_AGAIN_S: Final = 1.0

log = structlog.get_logger()


class LaneRegistrar:
    """Any number of them may run: each heartbeat is heard by one."""

    def __init__(self, store: Store, broker: Broker | str, *, tvm_version: str | None, lost_s: float = LOST_S) -> None:
        """Lanes with another TVM than ``tvm_version`` get no work; None takes any. Raises BadInput."""
        self._store = store
        self._broker = Broker.at(broker) if isinstance(broker, str) else broker
        self._tvm_version = tvm_version
        self._lost_s = lost_s
        self._requests: dict[str, LaneRequest] = {}
        self._next_question_s = 0.0
        self._next_sweep_s = 0.0
        self._listening_since_s: float | None = None

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, whatever happens to the broker and the store meanwhile."""
        client = connect(self._broker)
        while not stop.is_set():
            try:
                self.hear(client)
                stop.wait(GATHER_S)
            except BROKER_ERRORS as error:
                log.warning("lanes are not heard: the broker is away", reason=str(error))
                self._listening_since_s = None
                stop.wait(_AGAIN_S)
            except StoreUnavailable as error:
                log.warning("lanes are not written down: the store is away", reason=str(error))
                self._listening_since_s = None
                stop.wait(_AGAIN_S)
            except Exception:  # one lane's strange words must not make the others unheard
                log.exception("lanes are not heard")
                stop.wait(_AGAIN_S)
        client.close()

    def hear(self, client: redis.Redis) -> None:
        """One round: write down and answer what waits, or came within a second, and look for who is silent."""
        texts = self._heard(client)
        now_s = time.monotonic()
        self._listening_since_s = self._listening_since_s or now_s
        has_heard_all = len(texts) <= _AT_ONCE
        if now_s >= self._next_question_s:
            self._next_question_s = now_s + ASK_STORE_S
            self._requests = self._store.lanes.requests()
        lanes, answers = self._judged(texts)
        if lanes:
            self._store.lanes.put_all(lanes)
        if answers:
            self._tell(client, answers)
        # Right after an outage everybody seems to have been silent, and so does whoever waits unheard.
        if has_heard_all and now_s >= self._next_sweep_s and now_s - self._listening_since_s > self._lost_s:
            self._next_sweep_s = now_s + SWEEP_S
            for lane in self._store.lanes.mark_lost(self._lost_s):
                log.warning("a lane is lost", lane=lane.worker_name, host=lane.host_name)

    def _heard(self, client: redis.Redis) -> list[bytes]:
        """The heartbeats that wait, oldest first; after a while, none."""
        key = self._broker.key(HEARTBEATS)
        first: Any = client.brpop([key], timeout=_WAIT_S)
        if first is None:
            return []
        more: Any = client.rpop(key, _AT_ONCE) or []
        return [first[1], *(more if isinstance(more, list) else [more])]

    def _judged(self, texts: Sequence[bytes]) -> tuple[list[Lane], list[LaneAnswer]]:
        lanes: dict[str, Lane] = {}
        answers: dict[str, LaneAnswer] = {}
        for text in texts:
            beat = _parsed(text)
            if beat is None:
                continue
            if isinstance(beat, LaneAnswer):
                answers[beat.lane_id] = beat
                continue
            reason = self._objection(beat.lane)
            lane = beat.lane
            if reason:
                lane = lane.model_copy(update={"state": LaneState.REFUSED, "reason": reason})
            lanes[lane.lane_id] = lane
            answers[lane.lane_id] = LaneAnswer(
                lane_id=lane.lane_id,
                instance=beat.instance,
                admitted=not reason,
                reason=reason,
                request=self._requests.get(lane.lane_id, LaneRequest.NONE),
            )
        return list(lanes.values()), list(answers.values())

    def _objection(self, lane: Lane) -> str:
        if lane.protocol_version != MESSAGE_VERSION:
            return _other_version(lane.protocol_version)
        if self._tvm_version is not None and lane.tvm_version != self._tvm_version:
            return (
                f"this lane has TVM {lane.tvm_version or 'unknown'} and the tuner {self._tvm_version}: schedules found "
                "with one may not replay on the other. Install the tuner's version on this host."
            )
        return ""

    def _tell(self, client: redis.Redis, answers: Sequence[LaneAnswer]) -> None:
        with client.pipeline(transaction=False) as pipeline:
            for answer in answers:
                pipeline.publish(self._broker.key(lane_channel(answer.lane_id)), answer.model_dump_json())
            pipeline.execute()


def _parsed(text: bytes) -> Heartbeat | LaneAnswer | None:
    """A heartbeat; for one of another version, or one that is not understood, the refusal."""
    try:
        beat = Heartbeat.model_validate_json(text)
    except ValidationError as error:
        return _refused(text, f"its heartbeat is not understood: {error.errors()[0]['msg']}")
    return beat if beat.version == MESSAGE_VERSION else _refused(text, "")


def _refused(text: bytes, reason: str) -> LaneAnswer | None:
    """The refusal of a heartbeat of which no more is understood than every version has; None for less than that."""
    try:
        loose = json.loads(text)
        lane_id, version = str(loose["lane_id"])[:200], loose["version"]
        instance = str(loose.get("instance", ""))[:200]
        if version != MESSAGE_VERSION:
            reason = _other_version(version)
        return LaneAnswer(lane_id=lane_id, instance=instance, admitted=False, reason=reason)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        log.warning("a heartbeat is not understood", begins=text[:100].decode(errors="replace"))
        return None


def _other_version(version: object) -> str:
    return (
        f"this lane speaks version {str(version)[:20]} of the farm's messages and the tuner version {MESSAGE_VERSION}. "
        "Install the tuner's version of tunefarm on this host."
    )
