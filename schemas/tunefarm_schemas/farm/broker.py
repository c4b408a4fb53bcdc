"""The address of the farm's broker. Plain values: nothing here opens a connection."""

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

from tunefarm_schemas.bad_input import BadInput

_FIELD: Final = "TUNEFARM_BROKER_URL"
_FIX: Final = "Write redis://host:6379/0, rediss://host:6380/0?ssl_ca_certs=/path/ca.pem or unix:///path/redis.sock."
_SOCKET_SCHEMES: Final = frozenset({"unix", "redis+socket"})
_TCP_SCHEMES: Final = frozenset({"redis", "rediss"})

DEFAULT_PREFIX: Final = "tunefarm."
"""Prefix of all keys and channels, unless a farm has its own."""
CONNECT_TIMEOUT_S: Final = 3.0
ANSWER_TIMEOUT_S: Final = 5.0
"""A broker that is silent for longer is treated as away."""


@dataclass(frozen=True)
class Broker:
    """A Redis server, and the prefix of all keys of this farm.

    ``url`` is redis://, rediss:// (TLS; further ``ssl_`` options in the query) or unix:///path?db=0. A prefix allows
    restricting a Redis user to one farm.
    """

    url: SecretStr
    prefix: str = DEFAULT_PREFIX

    @classmethod
    def at(cls, url: str, prefix: str = DEFAULT_PREFIX) -> Self:
        """Raises BadInput when ``url`` is not one of the three kinds."""
        broker = cls(url=SecretStr(url), prefix=prefix)
        parts = urlsplit(url)
        if parts.scheme in _SOCKET_SCHEMES and parts.path.strip("/"):
            return broker
        if parts.scheme in _TCP_SCHEMES and parts.hostname:
            return broker
        raise BadInput(_FIELD, "it does not name a Redis server.", _FIX)

    def redis_url(self) -> str:
        """The URL for redis-py, with its password."""
        parts = urlsplit(self.url.get_secret_value())
        if parts.scheme not in _SOCKET_SCHEMES:
            return self.url.get_secret_value()
        query = [("db" if name == "virtual_host" else name, value) for name, value in parse_qsl(parts.query)]
        return f"unix://{_credentials(parts.username, parts.password)}{parts.path}?{urlencode(query)}".rstrip("?")

    def celery_url(self) -> str:
        """The URL for Celery, with its password."""
        parts = urlsplit(self.url.get_secret_value())
        if parts.scheme not in _SOCKET_SCHEMES:
            query = parse_qsl(parts.query)
            if parts.scheme == "rediss" and "ssl_cert_reqs" not in dict(query):
                # Without this option Celery accepts any certificate.
                query.append(("ssl_cert_reqs", "required"))
            return urlunsplit(parts._replace(query=urlencode(query)))
        query = [("virtual_host" if name == "db" else name, value) for name, value in parse_qsl(parts.query)]
        return f"redis+socket://{_credentials(parts.username, parts.password)}{parts.path}?{urlencode(query)}".rstrip(
            "?"
        )

    def redis_options(self) -> dict[str, float | bool]:
        """Timeouts for redis-py."""
        return {
            "socket_timeout": ANSWER_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "decode_responses": False,
        }

    def key(self, name: str) -> str:
        """The full name of a key or channel."""
        return f"{self.prefix}{name}"

    def celery_configuration(self) -> dict[str, object]:
        """Settings of a Celery worker that takes messages without acknowledgement and makes no results."""
        return {
            "broker_url": self.celery_url(),
            "accept_content": ["json"],
            "worker_enable_remote_control": False,
            "worker_hijack_root_logger": False,
            "broker_connection_retry_on_startup": True,
            "broker_connection_max_retries": None,
            "broker_transport_options": {
                # One list to wait on instead of four: priorities are the tuner's business.
                "priority_steps": [0],
                "global_keyprefix": self.prefix,
                "socket_timeout": ANSWER_TIMEOUT_S,
                "socket_connect_timeout": CONNECT_TIMEOUT_S,
                "socket_keepalive": True,
                "retry_on_timeout": False,
            },
        }


def _credentials(user: str | None, password: str | None) -> str:
    if not user and not password:
        return ""
    return f"{quote(user or '', safe='')}:{quote(password or '', safe='')}@"
