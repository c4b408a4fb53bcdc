"""Tokens that were valid a moment ago, so that most requests ask the store nothing about theirs."""

import mmap
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from anyio import to_thread

from tunefarm_schemas.token import Token
from tunefarm_services.store.tenants.token_repository import TokenRepository

IN_USE_S: Final = 5.0
"""A token that nobody has sent for so long is forgotten."""

LATELY_S: Final = 600.0
MAX_LATELY: Final = 10_000


@dataclass(slots=True)
class _Known:
    token: Token
    asked_s: float
    used_s: float
    changes: int


class KnownTokens:
    """Asks the store for a token at most once in ``trust_s``, and for all that are in use in one question.

    One that is changed through an API process of this host is asked for again at once by all of them; one that is
    changed elsewhere works here for ``trust_s`` longer at most. Used on the event loop only, but for ``forget``.
    """

    def __init__(self, tokens: TokenRepository, trust_s: float) -> None:
        """``trust_s`` is in seconds; with 0 every request asks."""
        self._tokens = tokens
        self._trust_s = trust_s
        self._known: dict[str, _Known] = {}
        self._valid_s: dict[str, float] = {}
        # In memory that processes forked later share: how often a token was changed here.
        self._changes = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    async def token(self, text: str) -> Token | None:
        """The token with this text; None when it is unknown, revoked or expired.

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
        # Whoever comes meanwhile with one of them asks for that one alone.
        self._forget(asked)
        found = await to_thread.run_sync(self._tokens.authenticate_all, asked)
        self._remember_validity(asked, found, now_s)
        if self._trust_s > 0:
            self._known |= {each: _Known(token, now_s, used_s[each], changes) for each, token in found.items()}
        return found.get(text)

    def was_valid_lately(self, text: str) -> bool:
        """Whether a token with this text was found within the last minutes. It says nothing about now."""
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
        """Tokens that are in use and whose time is half over; those out of use are forgotten."""
        self._forget([text for text, known in self._known.items() if now_s - known.used_s > IN_USE_S])
        return {text for text, known in self._known.items() if now_s - known.asked_s > self._trust_s / 2}

    def _forget(self, texts: Collection[str]) -> None:
        for text in texts:
            self._known.pop(text, None)

    def forget(self) -> None:
        """Ask about every token again: one was changed."""
        self._changes[0] += 1
