"""Registers the lanes of a farm by their heartbeats, and answers each with its admission and requests."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import redis
import structlog
from pydantic import ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_schemas.farm.farm_message import HEARTBEATS, MESSAGE_VERSION, Heartbeat, LaneAnswer, lane_channel
from tunefarm_schemas.farm.lane import Lane, LaneRequest, LaneState
from tunefarm_services.store.catalog.lane_repository import LaneRepository
from tunefarm_services.store.store_error import StoreUnavailable

LOST_S: Final = 10.0
"""A lane without a heartbeat for this time is lost."""
POLL_STORE_S: Final = 1.0
SWEEP_S: Final = 2.0
BATCH_DELAY_S: Final = 0.05
"""Delay between batches: a transaction for each heartbeat would cost ten times as much."""
_MAX_BATCH: Final = 256
_WAIT_S: Final = 1.0
_RETRY_S: Final = 1.0

log = structlog.get_logger()


class LaneRegistrar:
    """Reads heartbeats from the broker. Any number may run: each heartbeat goes to one of them."""

    def __init__(
        self, lanes: LaneRepository, broker: Broker | str, *, tvm_version: str | None, lost_s: float = LOST_S
    ) -> None:
        """Lanes whose version of TVM differs from ``tvm_version`` get no work; None admits all. Raises BadInput."""
        self._lanes = lanes
        self._broker = Broker.at(broker) if isinstance(broker, str) else broker
        self._tvm_version = tvm_version
        self._lost_s = lost_s
        self._requests: dict[str, LaneRequest] = {}
        self._next_poll_s = 0.0
        self._next_sweep_s = 0.0
        self._listening_since_s: float | None = None

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set. Continues after failures of broker and store."""
        client = connect(self._broker)
        while not stop.is_set():
            try:
                self.process(client)
                stop.wait(BATCH_DELAY_S)
            except BROKER_ERRORS as error:
                log.warning("heartbeats are not read: the broker is away", reason=str(error))
                self._listening_since_s = None
                stop.wait(_RETRY_S)
            except StoreUnavailable as error:
                log.warning("lanes are not registered: the store is unavailable", reason=str(error))
                self._listening_since_s = None
                stop.wait(_RETRY_S)
            except Exception:  # the heartbeat of one lane must not stop those of the others
                log.exception("heartbeats are not processed")
                stop.wait(_RETRY_S)
        client.close()

    def process(self, client: redis.Redis) -> None:
        """Process one batch: wait up to a second for heartbeats, register and answer their lanes, mark lost ones."""
        texts = self._read(client)
        now_s = time.monotonic()
        self._listening_since_s = self._listening_since_s or now_s
        has_read_all = len(texts) <= _MAX_BATCH
        if now_s >= self._next_poll_s:
            self._next_poll_s = now_s + POLL_STORE_S
            self._requests = self._lanes.requests()
        lanes, answers = self._judged(texts)
        if lanes:
            self._lanes.put_all(lanes)
        if answers:
            self._publish(client, answers)
        # No lane is lost whose heartbeats were not read: after an outage, or with more of them waiting.
        if has_read_all and now_s >= self._next_sweep_s and now_s - self._listening_since_s > self._lost_s:
            self._next_sweep_s = now_s + SWEEP_S
            for lane in self._lanes.mark_lost(self._lost_s):
                log.warning("a lane is lost", lane=lane.worker_name, host=lane.host_name)

    def _read(self, client: redis.Redis) -> list[bytes]:
        """The waiting heartbeats, oldest first; empty after a timeout."""
        key = self._broker.key(HEARTBEATS)
        first: Any = client.brpop([key], timeout=_WAIT_S)
        if first is None:
            return []
        more: Any = client.rpop(key, _MAX_BATCH) or []
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

    def _publish(self, client: redis.Redis, answers: Sequence[LaneAnswer]) -> None:
        with client.pipeline(transaction=False) as pipeline:
            for answer in answers:
                pipeline.publish(self._broker.key(lane_channel(answer.lane_id)), answer.model_dump_json())
            pipeline.execute()


def _parsed(text: bytes) -> Heartbeat | LaneAnswer | None:
    """The heartbeat; or its refusal, if it has another version or is malformed."""
    try:
        beat = Heartbeat.model_validate_json(text)
    except ValidationError as error:
        return _refused(text, f"its heartbeat is not understood: {error.errors()[0]['msg']}")
    return beat if beat.version == MESSAGE_VERSION else _refused(text, "")


def _refused(text: bytes, reason: str) -> LaneAnswer | None:
    """The refusal of a heartbeat, from the fields that all versions share; None without them."""
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
