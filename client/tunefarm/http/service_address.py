"""The service's address and token: from arguments, the environment, or the files of ``tunefarm serve``."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm_schemas.bad_input import BadInput

FIELD: Final = "api"
ADDRESS_NAME: Final = "api.json"
TOKEN_NAME: Final = "token"  # noqa: S105 - the name of a file
FIX: Final = "Start one with tunefarm serve, or set TUNEFARM_API_URL and TUNEFARM_API_TOKEN."


class ClientSettings(BaseSettings):
    """A client's settings from the environment. Each field is the variable of its name prefixed with ``TUNEFARM_``."""

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_", frozen=True, extra="ignore")

    api_url: str | None = None
    api_token: SecretStr | None = None
    api_patience_s: float = Field(default=10.0, ge=0)
    """How long requests are retried while the service does not answer."""
    home: Path = Field(default_factory=lambda: Path.home() / ".tunefarm")


@dataclass(frozen=True)
class ServiceAddress:
    """The service's URL without a trailing slash, and its token. Printing hides the token."""

    url: str
    token: SecretStr | None

    @property
    def may_use_tls(self) -> bool:
        """Whether a connection to the service or to a proxy may need certificates, which take 40 ms to load."""
        return any(url.lower().startswith("https:") for url in (self.url, *getproxies().values()))


def service_address(
    url: str | None = None, token: str | None = None, settings: ClientSettings | None = None
) -> ServiceAddress:
    """Find the service: the arguments, else the environment, else the service on this machine.

    The token file of a local service is used for that service only.

    Raises:
        BadInput: no service is configured, or its URL is invalid.
    """
    settings = settings or ClientSettings()
    local = _local_url(settings.home)
    chosen = url or settings.api_url or local
    if chosen is None:
        raise BadInput(FIELD, "no service is known.", FIX)
    chosen = _checked(chosen)
    secret = _usable_token(SecretStr(token) if token else settings.api_token)
    if secret is None and local is not None and chosen == _checked(local):
        secret = _local_token(settings.home)
    return ServiceAddress(url=chosen, token=secret)


def is_service_named(url: str | None, settings: ClientSettings | None = None) -> bool:
    """Whether an argument or the environment names a service, which commands then use instead of the local store."""
    return bool(url or (settings or ClientSettings()).api_url)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise BadInput(FIELD, f"{url!r} is not the URL of a service.", "Write it as https://HOST:PORT.")
    return url.rstrip("/").removesuffix("/v1")


def _usable_token(token: SecretStr | None) -> SecretStr | None:
    """Strip the line end of secret files. Raises BadInput for a token that a header cannot contain."""
    if token is None:
        return None
    text = token.get_secret_value().strip()
    if not (text.isascii() and text.isprintable()):
        raise BadInput(
            "token",
            "it contains characters that are not valid in a token.",
            "Set TUNEFARM_API_TOKEN to the token alone.",
        )
    return SecretStr(text) if text else None


def _local_url(home: Path) -> str | None:
    path = home.expanduser() / ADDRESS_NAME
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadInput(
            FIELD, f"{path} cannot be read ({error}).", "Remove it, and start tunefarm serve again."
        ) from error
    url = value.get("url") if isinstance(value, dict) else None
    return url if isinstance(url, str) else None


def _local_token(home: Path) -> SecretStr | None:
    path = home.expanduser() / TOKEN_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput("token", f"{path} cannot be read ({error.strerror}).", "Set TUNEFARM_API_TOKEN.") from error
    with os.fdopen(descriptor, encoding="utf-8") as file:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            raise BadInput("token", f"users other than its owner can read {path}.", f"Run: chmod 600 {path}")
        text = file.read().strip()
    return SecretStr(text) if text else None
