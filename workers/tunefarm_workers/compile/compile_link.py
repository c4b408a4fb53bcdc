"""Connections to the broker of those who compile and of those who have it done."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.celery_envelope import celery_envelope
from tunefarm_schemas.farm.farm_message import CANCELLATIONS, Cancellation, farm_key, replies_key
from tunefarm_schemas.frozen import canonical_json
from tunefarm_workers.broker.broker_client import BROKER_ERRORS, connect
from tunefarm_workers.compile.compile_messages import (
    COMPILE,
    CompileMessage,
    CompileReply,
    compile_queue,
    compile_reply,
    compilers_key,
)

SIGN_LIVES_S: Final = 10
"""A pool of which no lane showed itself for so long has none that takes work."""
REQUESTER_LIVES_S: Final = 60
READ_AT_ONCE: Final = 128
_NO_EPOCH: Final = 0
"""Orders are canceled one by one."""


class PoolSign:
    """Where a compile lane shows that it takes work. For one thread."""

    def __init__(self, broker: Broker, pool: str) -> None:
        self._key = broker.key(compilers_key(pool))
        self._client = connect(broker)

    def show(self, lane_id: str) -> None:
        """Show it for a while. While the broker is away nobody sees it anyway."""
        with suppress(*BROKER_ERRORS):
            self._client.set(self._key, lane_id, ex=SIGN_LIVES_S)


class CompileLink:
    """Sends orders to a pool. For one thread. Every method raises BROKER_ERRORS while the broker is away."""

    def __init__(self, broker: Broker, pool: str, farm_id: str) -> None:
        self._broker = broker
        self._queue = compile_queue(pool)
        self._farm_id = farm_id
        self._farm_key = broker.key(farm_key(farm_id))
        self._replies_key = broker.key(replies_key(farm_id))
        self._compilers_key = broker.key(compilers_key(pool))
        self._client = connect(broker)

    def send(self, orders: Sequence[CompileMessage]) -> None:
        """Put orders into the queue; first come, first out."""
        envelopes = [celery_envelope(self._queue, COMPILE, order) for order in orders]
        self._client.lpush(self._broker.key(self._queue), *envelopes)

    def show(self) -> bool:
        """Show that the requester lives. False when the broker has forgotten it."""
        text = canonical_json({"epoch": _NO_EPOCH})
        return self._client.set(self._farm_key, text, ex=REQUESTER_LIVES_S, get=True) is not None

    def cancel(self, order_ids: Sequence[str]) -> None:
        """Tell all lanes that these are not wanted any more."""
        cancellation = Cancellation(farm_id=self._farm_id, order_ids=tuple(order_ids))
        self._client.publish(self._broker.key(CANCELLATIONS), cancellation.model_dump_json())

    def queue_length(self) -> int:
        """How many orders of everybody wait in the queue."""
        return int(self._client.llen(self._broker.key(self._queue)))

    def somebody_compiles(self) -> bool:
        """Whether a lane of the pool takes work."""
        return self._client.get(self._compilers_key) is not None

    def drop_replies(self, entries: Sequence[bytes]) -> None:
        """Delete replies that are dealt with."""
        self._client.xdel(self._replies_key, *entries)

    def withdraw(self) -> None:
        """Leave nothing behind in the broker."""
        self._client.delete(self._farm_key, self._replies_key)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class CompileReplies:
    """Reads the replies to one requester. For one thread."""

    def __init__(self, broker: Broker, farm_id: str) -> None:
        self._key = broker.key(replies_key(farm_id))
        self._client = connect(broker)
        self._last = b"0-0"

    def read(self, timeout_s: float) -> list[tuple[bytes, CompileReply | None]]:
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


def _parsed(fields: dict[bytes, bytes]) -> CompileReply | None:
    try:
        return compile_reply.validate_json(fields.get(b"m", b""))
    except ValidationError:
        return None
