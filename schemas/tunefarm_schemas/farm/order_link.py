"""The way of orders into the broker and of replies out of it, over a client of Redis that is given.

Nothing here opens a connection: tuner and worker have clients of their own, and neither may import the other.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.celery_envelope import celery_envelope
from tunefarm_schemas.farm.farm_message import CANCELLATIONS, Cancellation, farm_key, replies_key
from tunefarm_schemas.frozen import Frozen, canonical_json

SENDER_LIVES_S: Final = 60
"""A sender of orders that does not show itself for so long is taken for dead by lanes."""
READ_AT_ONCE: Final = 128
"""A reader that gets fewer has read all."""

Message = TypeVar("Message")


class RedisClient(Protocol):
    """What is needed of ``redis.Redis``. Each command raises the client's own errors while the broker is away."""

    def lpush(self, name: str, *values: str) -> Any:
        """Put values at the head of a list."""

    def llen(self, name: str) -> Any:
        """The length of a list."""

    def set(self, name: str, value: str, *, ex: int, get: bool) -> Any:
        """Set a value that expires, and give the one before."""

    def publish(self, channel: str, message: str) -> Any:
        """Tell all subscribers."""

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
        """``farm_id`` is what lanes know the sender by. The client is closed with the link."""
        self._client = client
        self._queue = queue
        self._queue_key = broker.key(queue)
        self._farm_key = broker.key(farm_key(farm_id))
        self._replies_key = broker.key(replies_key(farm_id))
        self._cancellations_key = broker.key(CANCELLATIONS)

    def send(self, orders: Sequence[tuple[str, Frozen]]) -> None:
        """Put orders, each with the name of its task, into the queue, in one round trip; first come, first out."""
        self._client.lpush(self._queue_key, *[celery_envelope(self._queue, task, order) for task, order in orders])

    def show(self, epoch: int = 0) -> bool:
        """Show that the sender lives, and what it canceled. False when the broker has forgotten it."""
        text = canonical_json({"epoch": epoch})
        return self._client.set(self._farm_key, text, ex=SENDER_LIVES_S, get=True) is not None

    def cancel(self, cancellation: Cancellation) -> None:
        """Tell all lanes."""
        self._client.publish(self._cancellations_key, cancellation.model_dump_json())

    def queue_length(self) -> int:
        """How many orders of all senders wait in the queue."""
        return int(self._client.llen(self._queue_key))

    def drop_replies(self, entries: Sequence[bytes]) -> None:
        """Delete replies that are dealt with."""
        self._client.xdel(self._replies_key, *entries)

    def withdraw(self) -> None:
        """Leave nothing behind in the broker."""
        self._client.delete(self._farm_key, self._replies_key)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class ReplyReader(Generic[Message]):
    """Reads the replies to one sender of orders, in order. For one thread."""

    def __init__(self, client: RedisClient, broker: Broker, farm_id: str, kinds: TypeAdapter[Message]) -> None:
        """The client is closed with the reader."""
        self._client = client
        self._key = broker.key(replies_key(farm_id))
        self._kinds = kinds
        self._last = b"0-0"

    def read(self, timeout_s: float) -> list[tuple[bytes, Message | None]]:
        """What came, each with its entry's id; None for what is no reply. Raises the client's errors."""
        found = self._client.xread({self._key: self._last}, count=READ_AT_ONCE, block=int(timeout_s * 1000))
        entries = found[0][1] if found else []
        if entries:
            self._last = entries[-1][0]
        return [(entry, parsed_reply(fields, self._kinds)) for entry, fields in entries]

    def start_over(self) -> None:
        """The broker lost its memory: read from the beginning of the new stream."""
        self._last = b"0-0"

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def parsed_reply(fields: dict[bytes, bytes], kinds: TypeAdapter[Message]) -> Message | None:
    """The reply in an entry of a stream; None for what is none."""
    try:
        return kinds.validate_json(fields.get(b"m", b""))
    except ValidationError:
        return None
