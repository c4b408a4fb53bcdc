"""The heartbeat of a pool of compile lanes, a key in the broker."""

from contextlib import suppress
from typing import Final

import redis

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS
from tunefarm_workers.compile.compile_messages import compilers_key

EXPIRES_S: Final = 10
"""After this long without a heartbeat, no lane of the pool accepts work."""


class PoolHeartbeat:
    """Set by the lanes of a pool, read by its requesters. For one thread."""

    def __init__(self, client: redis.Redis, broker: Broker, pool: str) -> None:
        self._client = client
        self._key = broker.key(compilers_key(pool))

    def show(self, lane_id: str) -> None:
        """Set the heartbeat. Broker errors are ignored: requesters cannot read it then either."""
        with suppress(*BROKER_ERRORS):
            self._client.set(self._key, lane_id, ex=EXPIRES_S)

    def is_alive(self) -> bool:
        """Whether a lane of the pool accepts work. Raises BROKER_ERRORS."""
        return self._client.get(self._key) is not None
