"""Sending orders to the broker and reading replies from it, over an existing Redis client.

Imports no driver, so that the formats of messages can be read without one.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.celery_envelope import celery_envelope
from tunefarm_schemas.farm.farm_message import CANCELLATIONS, Cancellation, farm_key, replies_key
from tunefarm_schemas.frozen import Frozen, canonical_json

SENDER_LIVES_S: Final = 60
"""Lanes consider a sender dead that has not renewed its key for this many seconds."""
READ_AT_ONCE: Final = 128
"""A read with fewer entries has reached the end of the stream."""

Message = TypeVar("Message")


class RedisClient(Protocol):
    """The required methods of ``redis.Redis``. Each raises the client's own errors while the broker is unavailable."""

    def lpush(self, name: str, *values: str) -> Any:
        """Prepend values to a list."""

    def llen(self, name: str) -> Any:
        """Return the length of a list."""

    def set(self, name: str, value: str, *, ex: int, get: bool) -> Any:
        """Set a value with an expiry, and return the previous one."""

    def publish(self, channel: str, message: str) -> Any:
        """Publish a message to all subscribers."""

    def xread(self, streams: Any, *, count: int, block: int) -> Any:
        """Wait for entries of streams."""

    def xdel(self, name: str, *ids: bytes) -> Any:
        """Delete entries of a stream."""

    def delete(self, *names: str) -> Any:
        """Delete keys."""

    def close(self) -> None:
        """Disconnect."""


class OrderLink:
    """Sends orders to one queue. For one thread. Every method raises the client's errors while the broker is away."""

    def __init__(self, client: RedisClient, broker: Broker, queue: str, farm_id: str) -> None:
        """``farm_id`` identifies the sender to lanes. Closing the link closes the client."""
        self._client = client
        self._queue = queue
        self._queue_key = broker.key(queue)
        self._farm_key = broker.key(farm_key(farm_id))
        self._replies_key = broker.key(replies_key(farm_id))
        self._cancellations_key = broker.key(CANCELLATIONS)

    def send(self, orders: Sequence[tuple[str, Frozen]]) -> None:
        """Append orders, each with the name of its Celery task, to the queue in one round trip.

        The queue is first in, first out.
        """
        self._client.lpush(self._queue_key, *[celery_envelope(self._queue, name, order) for name, order in orders])

    def show(self, epoch: int = 0) -> bool:
        """Renew the sender's key with its cancellation epoch. False if the broker had lost the key."""
        text = canonical_json({"epoch": epoch})
        return self._client.set(self._farm_key, text, ex=SENDER_LIVES_S, get=True) is not None

    def cancel(self, cancellation: Cancellation) -> None:
        """Publish a cancellation to all lanes."""
        self._client.publish(self._cancellations_key, cancellation.model_dump_json())

    def queue_length(self) -> int:
        """The number of orders of all senders in the queue."""
        return int(self._client.llen(self._queue_key))

    def drop_replies(self, entries: Sequence[bytes]) -> None:
        """Delete processed replies."""
        self._client.xdel(self._replies_key, *entries)

    def withdraw(self) -> None:
        """Delete the sender's keys."""
        self._client.delete(self._farm_key, self._replies_key)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class ReplyReader(Generic[Message]):
    """Reads the replies to one sender in order. For one thread."""

    def __init__(self, client: RedisClient, broker: Broker, farm_id: str, kinds: TypeAdapter[Message]) -> None:
        """Closing the reader closes the client."""
        self._client = client
        self._key = broker.key(replies_key(farm_id))
        self._kinds = kinds
        self._last = b"0-0"

    def read(self, timeout_s: float) -> list[tuple[bytes, Message | None]]:
        """New entries: their ids and replies, None for an invalid one. Raises the client's errors."""
        found = self._client.xread({self._key: self._last}, count=READ_AT_ONCE, block=int(timeout_s * 1000))
        entries = found[0][1] if found else []
        if entries:
            self._last = entries[-1][0]
        return [(entry, parsed_reply(fields, self._kinds)) for entry, fields in entries]

    def start_over(self) -> None:
        """Read from the beginning of the new stream after the broker lost its memory."""
        self._last = b"0-0"

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def parsed_reply(fields: dict[bytes, bytes], kinds: TypeAdapter[Message]) -> Message | None:
    """Parse the reply in an entry of a stream; None if it is invalid."""
    try:
        return kinds.validate_json(fields.get(b"m", b""))
    except ValidationError:
        return None
