"""A lane's conversation with the tuners: sends heartbeats, receives answers and cancellations."""

import json
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import redis
import structlog
from pydantic import ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_schemas.farm.farm_message import (
    CANCELLATIONS,
    HEARTBEATS,
    MESSAGE_VERSION,
    Cancellation,
    Heartbeat,
    LaneAnswer,
    farm_key,
    lane_channel,
)
from tunefarm_schemas.farm.lane import Lane
from tunefarm_workers.broker.order_server import OrderServer

BEAT_S: Final = 1.0
"""Interval between reports of the orders held."""
HEARTBEAT_S: Final = 2.0
MAX_HEARTBEATS: Final = 20_000
FARM_GONE_S: Final = 30.0
"""A farm without a sign of life for so long is dead; its orders are dropped."""
_RETRY_S: Final = 0.5

log = structlog.get_logger()


class LaneVoice:
    """Two threads, one that sends and one that listens. Both survive outages of the broker."""

    def __init__(
        self,
        broker: Broker,
        server: OrderServer,
        instance: str,
        describe: Callable[[], Lane],
        on_answer: Callable[[LaneAnswer], None],
        on_beat: Callable[[], None],
    ) -> None:
        """``describe`` returns the lane; ``on_answer`` receives a registrar's answer; ``on_beat`` runs at each beat."""
        self._broker = broker
        self._server = server
        self._instance = instance
        self._describe = describe
        self._on_answer = on_answer
        self._on_beat = on_beat
        self._ended = threading.Event()
        self._soon = threading.Event()
        self._lane_id = describe().lane_id
        self._reported_farms: set[str] = set()
        self._next_heartbeat_s = 0.0
        self._missing_since_s: dict[str, float] = {}
        self._threads = [
            threading.Thread(target=self._send_heartbeats, name="heartbeat", daemon=True),
            threading.Thread(target=self._listen, name="answers", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def hurry(self) -> None:
        """Send the present state at once."""
        self._soon.set()

    def close(self) -> None:
        """Send the final state and end both threads."""
        self._ended.set()
        self._soon.set()
        for thread in self._threads:
            thread.join(3.0)

    def beat(self, client: redis.Redis, *, at_once: bool = False) -> None:
        """Report the orders held, and every other time, or ``at_once``, the lane's state."""
        self._on_beat()
        try:
            self._reported_farms = self._server.tell_holding(self._instance, self._reported_farms)
            if at_once or time.monotonic() >= self._next_heartbeat_s:
                self._heartbeat(client)
                self._next_heartbeat_s = time.monotonic() + HEARTBEAT_S
            self._check_farms(client)
        except BROKER_ERRORS as error:
            log.warning("no heartbeat: the broker is away", reason=str(error))

    def channels(self) -> tuple[str, str]:
        """Return the channels that this lane listens to."""
        return self._broker.key(CANCELLATIONS), self._broker.key(lane_channel(self._lane_id))

    def hear(self, channel: str, data: bytes) -> None:
        """Handle a message from one of the channels."""
        try:
            if channel == self._broker.key(CANCELLATIONS):
                self._server.cancel(Cancellation.model_validate_json(data))
            else:
                self._on_answer(_answer(data))
        except ValidationError as error:
            log.warning("a message is not understood", reason=str(error))

    def _send_heartbeats(self) -> None:
        client = connect(self._broker)
        while True:
            last = self._ended.is_set()
            at_once = self._soon.is_set()
            self._soon.clear()
            self.beat(client, at_once=last or at_once)
            if last:
                client.close()
                return
            self._soon.wait(BEAT_S)

    def _heartbeat(self, client: redis.Redis) -> None:
        beat = Heartbeat(lane_id=self._lane_id, instance=self._instance, lane=self._describe())
        key = self._broker.key(HEARTBEATS)
        with client.pipeline(transaction=False) as pipeline:
            pipeline.lpush(key, beat.model_dump_json())
            # Bounded, in case no tuner reads for long: the newest are kept.
            pipeline.ltrim(key, 0, MAX_HEARTBEATS - 1)
            pipeline.execute()

    def _check_farms(self, client: redis.Redis) -> None:
        """Catch up with missed cancellations, and drop the orders of dead farms."""
        farms = list(self._server.farms())
        self._missing_since_s = {farm: since_s for farm, since_s in self._missing_since_s.items() if farm in farms}
        if not farms:
            return
        epochs: Any = client.mget([self._broker.key(farm_key(farm_id)) for farm_id in farms])
        now_s = time.monotonic()
        for farm_id, text in zip(farms, epochs, strict=True):
            if text is not None:
                self._missing_since_s.pop(farm_id, None)
                self._server.cancel(Cancellation(farm_id=farm_id, epoch=_epoch(text)))
            elif now_s - self._missing_since_s.setdefault(farm_id, now_s) > FARM_GONE_S:
                log.info("a tuner is gone; its orders are dropped", farm_id=farm_id)
                self._missing_since_s[farm_id] = math.inf  # logged and dropped once
                # By id, not by epoch: a tuner that was only cut off may return and send new orders.
                self._server.cancel(Cancellation(farm_id=farm_id, order_ids=self._server.orders_of(farm_id)))

    def _listen(self) -> None:
        while not self._ended.is_set():
            client = connect(self._broker)
            try:
                with client.pubsub(ignore_subscribe_messages=True) as subscription:  # type: ignore[no-untyped-call]
                    subscription.subscribe(*self.channels())
                    self._soon.set()  # an answer may have been missed
                    while not self._ended.is_set():
                        message = subscription.get_message(timeout=1.0)
                        if message is not None:
                            self.hear(message["channel"].decode(), message["data"])
            except BROKER_ERRORS as error:
                log.warning("not listening: the broker is away", reason=str(error))
                self._ended.wait(_RETRY_S)
            finally:
                client.close()


def _epoch(text: bytes) -> int:
    try:
        return int(json.loads(text)["epoch"])
    except (ValueError, KeyError, TypeError):
        return 0


def _answer(data: bytes) -> LaneAnswer:
    """Parse an answer; of other message versions only the fields that never change."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None  # the model raises ValidationError, which ``hear`` expects
    if isinstance(fields, dict) and fields.get("version") != MESSAGE_VERSION:
        fields = {name: fields.get(name, "") for name in ("version", "lane_id", "instance", "reason")}
        return LaneAnswer.model_validate(fields | {"admitted": False})
    return LaneAnswer.model_validate_json(data)
