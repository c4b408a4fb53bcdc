"""Removal of secrets from all log lines."""

import re
from collections.abc import MutableMapping
from typing import Final

HIDDEN: Final = "[hidden]"
_SECRET_NAMES: Final = re.compile(r"authorization|password|secret|cookie|api_?token|private_?key", re.IGNORECASE)
_TOKEN: Final = re.compile(r"\btfk_([A-Za-z0-9-]+)_[A-Za-z0-9_-]{8,}")
_BEARER: Final = re.compile(r"\bBearer\s+[^\s\"',]+", re.IGNORECASE)
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+(?=@)")


def without_secrets(text: str) -> str:
    """Return ``text`` without the secret part of tokens and the passwords of URLs."""
    if "tfk_" in text:
        text = _TOKEN.sub(rf"tfk_\1_{HIDDEN}", text)
    if "earer" in text:
        text = _BEARER.sub(f"Bearer {HIDDEN}", text)
    return _URL_PASSWORD.sub(rf"\1:{HIDDEN}", text) if "://" in text else text


def hide_secrets(_logger: object, _method: str, line: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """A structlog processor that hides values by their names and by their format."""
    for name, value in line.items():
        if _SECRET_NAMES.search(name):
            line[name] = HIDDEN
        elif isinstance(value, str):
            line[name] = without_secrets(value)
    return line
