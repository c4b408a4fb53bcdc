"""When tokens were last used, on the way to the database."""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from sqlalchemy import bindparam, update

from tunefarm_schemas.token import Token
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.store.tables import TokenTable

_MAX_WAIT_S: Final = 10.0
_USED: Final = (
    update(TokenTable)
    .where(TokenTable.tenant == bindparam("of_tenant"), TokenTable.token_id == bindparam("of_token"))
    .values(last_used_at=bindparam("used_at"))
)


class TokenUses:
    """Stores times of last use on a thread of its own: a request must not wait for a lock to show its token.

    The thread runs only while there is something to store. What an unavailable store loses, the next use replaces.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], str] = {}
        self._writer: threading.Thread | None = None

    def add(self, tokens: Iterable[Token], used_at: str) -> None:
        """Store soon that these tokens were used at ``used_at``."""
        with self._lock:
            self._waiting |= {(token.tenant, token.token_id): used_at for token in tokens}
            if self._waiting and (self._writer is None or not self._writer.is_alive()):
                self._writer = threading.Thread(target=self._write, name="token uses", daemon=True)
                self._writer.start()

    def wait(self) -> None:
        """Wait until all is stored, for some seconds at most."""
        with self._lock:
            writer = self._writer
        if writer is not None:
            writer.join(_MAX_WAIT_S)

    def _write(self) -> None:
        while waiting := self._taken():
            # In one order in all processes, so that no two of them deadlock.
            values = [
                {"of_tenant": tenant, "of_token": token_id, "used_at": used_at}
                for (tenant, token_id), used_at in sorted(waiting.items())
            ]
            with suppress(StoreUnavailable), self._database.writing() as connection:
                connection.execute(_USED, values)

    def _taken(self) -> Mapping[tuple[str, str], str]:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if not waiting:
                self._writer = None
            return waiting
