"""A connection to the broker beside Celery's own."""

from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

from tunefarm_schemas.farm.broker import Broker

BROKER_ERRORS: Final = (RedisError, OSError)
"""Raised while the broker is unreachable."""

__all__ = ["BROKER_ERRORS", "RedisConnectionError", "connect"]


def connect(broker: Broker) -> redis.Redis:
    """Create a client for one thread; it connects at first use and reconnects after each loss."""
    # No retries here: each caller waits in its own way before the next attempt.
    return redis.Redis.from_url(broker.redis_url(), retry=Retry(NoBackoff(), 0), **broker.redis_options())
