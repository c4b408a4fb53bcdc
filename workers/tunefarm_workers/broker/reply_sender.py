"""Sends replies to farms in order and in batches, and keeps them while the broker is unreachable."""

import threading
import time
from collections import deque
from typing import Final

import structlog

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_schemas.farm.farm_message import replies_key
from tunefarm_schemas.frozen import Frozen

REPLIES_LIVE_S: Final = 3600
"""Time after which replies that were never fetched expire."""
MAX_KEPT: Final = 20_000
_BATCH: Final = 64
_RETRY_S: Final = 0.5
_EXPIRE_EVERY_S: Final = 30.0
"""A new stream, such as after the broker restarted without data, has no expiry for at most so long."""
_MAX_FARMS: Final = 1000

log = structlog.get_logger()


class ReplySender:
    """Sends from its own thread, so that callers never wait for the broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._client = connect(broker)
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=MAX_KEPT)
        self._changed = threading.Condition()
        self._closing = False
        self._next_expire_s: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="replies", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def send(self, farm_id: str, message: Frozen) -> None:
        """Queue a reply. Replies to one farm arrive in order."""
        with self._changed:
            self._waiting.append((farm_id, message.model_dump_json().encode()))
            self._changed.notify()

    def close(self, within_s: float) -> None:
        """Send the remaining replies within ``within_s`` seconds, drop the others, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(within_s)
        self._client.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                batch = [self._waiting[index] for index in range(min(_BATCH, len(self._waiting)))]
            if not batch:
                return
            try:
                self._put(batch)
            except BROKER_ERRORS as error:
                # The batch may have arrived all the same: farms discard duplicates.
                log.warning("replies wait for the broker", waiting=len(self._waiting), reason=str(error))
                time.sleep(_RETRY_S)
                continue
            with self._changed:
                for sent in batch:
                    if self._waiting and self._waiting[0] is sent:
                        self._waiting.popleft()

    def _put(self, batch: list[tuple[str, bytes]]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for farm_id, message in batch:
                pipeline.xadd(self._broker.key(replies_key(farm_id)), {b"m": message})
            renewed = {farm_id for farm_id, _ in batch if time.monotonic() >= self._next_expire_s.get(farm_id, 0.0)}
            for farm_id in renewed:
                pipeline.expire(self._broker.key(replies_key(farm_id)), REPLIES_LIVE_S)
            pipeline.execute()
        next_s = time.monotonic() + _EXPIRE_EVERY_S
        self._next_expire_s.update(dict.fromkeys(renewed, next_s))
        while len(self._next_expire_s) > _MAX_FARMS:
            self._next_expire_s.pop(next(iter(self._next_expire_s)))
