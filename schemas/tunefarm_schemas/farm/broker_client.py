"""The connection of tuner and worker to the broker.

The only module of this distribution that imports a driver, which its extra ``broker`` installs.
"""

from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tunefarm_schemas.farm.broker import Broker

BROKER_ERRORS: Final = (RedisError, OSError)
"""Raised while the broker is unavailable."""


def connect(broker: Broker) -> redis.Redis:
    """A client for one thread. It connects on first use, and again after each disconnection."""
    # No retries here: each caller decides how long to wait before the next attempt.
    return redis.Redis.from_url(broker.redis_url(), retry=Retry(NoBackoff(), 0), **broker.redis_options())
