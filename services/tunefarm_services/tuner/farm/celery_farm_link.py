"""A farm's connection to the broker: orders out through Celery, replies in from a stream of its own."""

from collections.abc import Sequence
from typing import Any, Final

import redis
from pydantic import ValidationError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.celery_envelope import celery_envelope
from tunefarm_schemas.farm.farm_message import CANCELLATIONS, Cancellation, Reply, farm_key, replies_key, reply
from tunefarm_schemas.frozen import Frozen, canonical_json

BROKER_ERRORS: Final = (RedisError, OSError)
"""What is raised while the broker is away."""

FARM_LIVES_S: Final = 60
"""A farm that does not show itself for so long is taken for dead by lanes."""
READ_AT_ONCE: Final = 128
"""A reader that gets fewer has read all."""


def connect(broker: Broker) -> redis.Redis:
    """A client; it connects when it is first used, and again after each loss."""
    # Whoever uses it decides how long to wait before the next attempt.
    return redis.Redis.from_url(broker.redis_url(), retry=Retry(NoBackoff(), 0), **broker.redis_options())


class OrderSender:
    """Sends orders to one queue. For one thread. Every method raises BROKER_ERRORS while the broker is away."""

    def __init__(self, broker: Broker, queue: str, farm_id: str) -> None:
        self._broker = broker
        self._queue = queue
        self._farm_key = broker.key(farm_key(farm_id))
        self._replies_key = broker.key(replies_key(farm_id))
        self._client = connect(broker)

    def send(self, orders: Sequence[tuple[str, Frozen]]) -> None:
        """Put orders, each with the name of its task, into the queue, in one round trip; first come, first out."""
        envelopes = [celery_envelope(self._queue, task, message) for task, message in orders]
        self._client.lpush(self._broker.key(self._queue), *envelopes)

    def show(self, epoch: int) -> bool:
        """Show that the farm lives, and what it canceled. False when the broker has forgotten the farm."""
        known = self._client.set(self._farm_key, canonical_json({"epoch": epoch}), ex=FARM_LIVES_S, get=True)
        return known is not None

    def cancel(self, cancellation: Cancellation) -> None:
        """Tell all lanes."""
        self._client.publish(self._broker.key(CANCELLATIONS), cancellation.model_dump_json())

    def queue_length(self) -> int:
        """How many orders of all farms wait in the queue."""
        return int(self._client.llen(self._broker.key(self._queue)))

    def drop_replies(self, entries: Sequence[bytes]) -> None:
        """Delete replies that are dealt with."""
        self._client.xdel(self._replies_key, *entries)

    def withdraw(self) -> None:
        """Leave nothing behind in the broker."""
        self._client.delete(self._farm_key, self._replies_key)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class ReplyReader:
    """Reads the replies to one farm. For one thread."""

    def __init__(self, broker: Broker, farm_id: str) -> None:
        self._key = broker.key(replies_key(farm_id))
        self._client = connect(broker)
        self._last = b"0-0"

    def read(self, timeout_s: float) -> list[tuple[bytes, Reply | None]]:
        """What came, each with its entry's id, in order; None for what is no reply. Raises BROKER_ERRORS."""
        found: Any = self._client.xread({self._key: self._last}, count=READ_AT_ONCE, block=int(timeout_s * 1000))
        entries = found[0][1] if found else []
        if entries:
            self._last = entries[-1][0]
        return [(entry, _parsed(fields)) for entry, fields in entries]

    def start_over(self) -> None:
        """The broker lost its memory: read from the beginning of the new stream."""
        self._last = b"0-0"

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def _parsed(fields: dict[bytes, bytes]) -> Reply | None:
    try:
        return reply.validate_json(fields.get(b"m", b""))
    except ValidationError:
        return None
