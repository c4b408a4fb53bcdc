"""The tuner's connection to the broker."""

from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tunefarm_schemas.farm.broker import Broker

BROKER_ERRORS: Final = (RedisError, OSError)
"""Raised while the broker is unavailable."""


def connect(broker: Broker) -> redis.Redis:
    """A client that connects on first use, and again after each disconnection."""
    # No retries here: the caller decides how long to wait before the next attempt.
    return redis.Redis.from_url(broker.redis_url(), retry=Retry(NoBackoff(), 0), **broker.redis_options())
