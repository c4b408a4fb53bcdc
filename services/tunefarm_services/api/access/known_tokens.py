"""A cache of recently valid tokens, so that most requests need no query for theirs."""

import mmap
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from anyio import to_thread

from tunefarm_schemas.token import Token
from tunefarm_services.store.tenants.token_repository import TokenRepository

IN_USE_S: Final = 5.0
"""Time without requests after which a token is dropped."""

LATELY_S: Final = 600.0
MAX_LATELY: Final = 10_000


@dataclass(slots=True)
class _Known:
    token: Token
    asked_s: float
    used_s: float
    changes: int


class KnownTokens:
    """Queries the store for a token at most once in ``trust_s``, with one query for all tokens in use.

    A token that an API process of this host changes is queried again at once by all of them; one that is changed
    elsewhere stays valid here for at most ``trust_s``. Except for ``forget``, use it only on the event loop.
    """

    def __init__(self, tokens: TokenRepository, trust_s: float) -> None:
        """``trust_s`` is in seconds; with 0 every request asks."""
        self._tokens = tokens
        self._trust_s = trust_s
        self._known: dict[str, _Known] = {}
        self._valid_s: dict[str, float] = {}
        # In memory that forked processes share: the number of token changes on this host.
        self._changes = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    async def token(self, text: str) -> Token | None:
        """Return the token with this text; None if it is unknown, revoked or expired.

        Raises:
            StoreError, PoolExhausted: the store does not answer.
        """
        now_s, changes = time.monotonic(), self._changes[0]
        known = self._known.get(text)
        if known is not None and now_s - known.asked_s < self._trust_s and known.changes == changes:
            known.used_s = now_s
            return known.token
        asked = self._due(now_s) | {text}
        used_s = {each: self._known[each].used_s for each in asked if each in self._known} | {text: now_s}
        # A request that arrives meanwhile with one of them queries for that one alone.
        self._forget(asked)
        found = await to_thread.run_sync(self._tokens.authenticate_all, asked)
        self._remember_validity(asked, found, now_s)
        if self._trust_s > 0:
            self._known |= {each: _Known(token, now_s, used_s[each], changes) for each, token in found.items()}
        return found.get(text)

    def was_valid_lately(self, text: str) -> bool:
        """Whether a token with this text was valid within the last minutes, which says nothing about now."""
        return time.monotonic() - self._valid_s.get(text, -LATELY_S) < LATELY_S

    def _remember_validity(self, asked: Collection[str], found: Collection[str], now_s: float) -> None:
        if len(self._valid_s) + len(found) > MAX_LATELY:
            self._valid_s.clear()
        for text in asked:
            if text in found:
                self._valid_s[text] = now_s
            else:
                self._valid_s.pop(text, None)

    def _due(self, now_s: float) -> set[str]:
        """Tokens in use that reach half of their trust time; drops unused ones."""
        self._forget([text for text, known in self._known.items() if now_s - known.used_s > IN_USE_S])
        return {text for text, known in self._known.items() if now_s - known.asked_s > self._trust_s / 2}

    def _forget(self, texts: Collection[str]) -> None:
        for text in texts:
            self._known.pop(text, None)

    def forget(self) -> None:
        """Query every token again, because one was changed."""
        self._changes[0] += 1
