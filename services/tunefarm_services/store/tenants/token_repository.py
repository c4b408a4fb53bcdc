"""Tokens: creation, authentication, revocation."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select, update

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.lane import OPERATOR_TENANT
from tunefarm_schemas.token import Scope, Token
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.database.database import Database
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import ServerSecretTable, TokenTable
from tunefarm_services.store.tenants.token_uses import TokenUses

_TEXT: Final = re.compile(r"tfk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_LAST_USE_INTERVAL: Final = timedelta(minutes=1)
_HASHING_KEY: Final = "token hashing key"
_NO_HASH: Final = bytes(32)

_KEY: Final = select(ServerSecretTable.secret).where(
    ServerSecretTable.tenant == OPERATOR_TENANT, ServerSecretTable.name == _HASHING_KEY
)
_BY_IDS: Final = select(TokenTable, _KEY.scalar_subquery().label("hashing_key")).where(
    TokenTable.token_id.in_(bindparam("token_ids", expanding=True))
)
_OF_TENANT: Final = select(TokenTable).where(TokenTable.tenant == bindparam("tenant")).order_by(TokenTable.token_id)
_ONE: Final = _OF_TENANT.where(TokenTable.token_id == bindparam("token_id"))
_CHANGE: Final = update(TokenTable).where(
    TokenTable.tenant == bindparam("of_tenant"), TokenTable.token_id == bindparam("of_token")
)

_USE_UP: Final = (
    update(TokenTable)
    .where(
        TokenTable.token_id == bindparam("of_token"),
        TokenTable.session_of.is_not(None),
        TokenTable.revoked_at.is_(None),
    )
    .values(revoked_at=bindparam("at"))
)
_END_SESSIONS: Final = (
    update(TokenTable)
    .where(TokenTable.session_of == bindparam("of_token"), TokenTable.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)
_DELETE_ENDED: Final = delete(TokenTable).where(
    TokenTable.tenant == bindparam("of_tenant"),
    TokenTable.session_of.is_not(None),
    TokenTable.expires_at < bindparam("now"),
)


class TokenRepository(Repository):
    """API tokens. A secret is returned once and never stored."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        super().__init__(database, blobs)
        self._uses = TokenUses(database)

    def settle(self) -> None:
        """Wait until the times of last use are stored."""
        self._uses.wait()

    @retried
    def create(
        self, tenant: str, name: str, scopes: tuple[Scope, ...], expires_at: str | None = None
    ) -> tuple[Token, str]:
        """Create a token and return it with its text, which cannot be retrieved later.

        ``expires_at`` is RFC 3339 with an offset. Raises BadInput for an invalid time.
        """
        expires_at = None if expires_at is None else _in_utc(expires_at)
        with self._database.writing() as connection:
            return insert_token(connection, tenant, name, scopes, expires_at)

    @retried
    def open_session(self, text: str, lifetime_s: float, name: str, *, once: bool = False) -> str | None:
        """Create a token with the tenant and scopes of the one with this text, and return its text.

        It ends with that token, when that is revoked, rotated or expired, and after ``lifetime_s`` at the latest. A
        session of a session is one of the same first token. ``once`` revokes the given token, a link, at the same
        time, so that only the first of two uses of it succeeds. None if the text is not that of a usable token.
        """
        given = self.authenticate(text)
        if given is None:
            return None
        with self._database.writing() as connection:
            row = _row_of(connection, given.tenant, given.token_id)
            first = _row_of(connection, given.tenant, row.session_of) if row.session_of else row
            if not _is_usable(row) or not _is_usable(first):
                return None
            if once and connection.execute(_USE_UP, {"of_token": row.token_id, "at": utc_now()}).rowcount != 1:
                return None
            connection.execute(_DELETE_ENDED, {"of_tenant": given.tenant, "now": utc_now()})
            end = (datetime.now(UTC) + timedelta(seconds=lifetime_s)).isoformat()
            expires_at = end if first.expires_at is None else min(end, first.expires_at)
            made = insert_token(connection, given.tenant, name, given.scopes, expires_at, session_of=first.token_id)
            return made[1]

    def authenticate(self, text: str) -> Token | None:
        """The token with this text, or None, in the same time, if it is unknown, revoked or expired.

        Updates the time of last use at most once a minute, without ever delaying the answer.
        """
        return self.authenticate_all((text,)).get(text)

    def authenticate_all(self, texts: Collection[str]) -> dict[str, Token]:
        """Authenticate several texts in one query; leaves out those that are unknown, revoked or expired."""
        matches = {text: _TEXT.fullmatch(text) for text in texts}
        parts = {text: match.groups() if match else ("", "") for text, match in matches.items()}
        with self._database.reading() as connection:
            token_ids = [token_id for token_id, _ in parts.values()]
            rows = {row.token_id: row for row in connection.execute(_BY_IDS, {"token_ids": token_ids})}
        found = {}
        for text, (token_id, secret) in parts.items():
            row = rows.get(token_id)
            # Takes the same time for an unknown token as for a wrong secret.
            key, stored_hash = (_NO_HASH, _NO_HASH) if row is None else (row.hashing_key, row.secret_hash)
            is_known = hmac.compare_digest(_hash(key, secret), stored_hash)
            if row is not None and is_known and _is_usable(row):
                found[text] = _token(row)
        return self._with_last_use(found)

    def of_tenant(self, tenant: str) -> list[Token]:
        """Every token of a tenant, including revoked and expired ones."""
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute(_OF_TENANT, {"tenant": tenant})]

    def of_people(self, tenant: str) -> list[Token]:
        """A tenant's tokens, the newest first, without browser sessions and the tokens of edge devices."""
        query = _OF_TENANT.where(TokenTable.session_of.is_(None), TokenTable.scopes != Scope.EDGE_POLL.value)
        with self._database.reading() as connection:
            found = [_token(row) for row in connection.execute(query, {"tenant": tenant})]
        return sorted(found, key=lambda token: (token.created_at, token.token_id), reverse=True)

    @retried
    def revoke(self, tenant: str, token_id: str) -> Token:
        """Revoke a token. Repeating it has no effect. Raises NotFound."""
        with self._database.writing() as connection:
            token = _token_of(connection, tenant, token_id)
            if token.revoked_at is None:
                values = {"of_tenant": tenant, "of_token": token_id}
                connection.execute(_CHANGE.values(revoked_at=utc_now()), values)
                _end_sessions(connection, token_id)
            return _token_of(connection, tenant, token_id)

    @retried
    def rotate(self, tenant: str, token_id: str) -> tuple[Token, str]:
        """Replace a token's secret and return its new text; the old one stops working at once.

        Raises NotFound, also for a revoked token.
        """
        secret = secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            token = _token_of(connection, tenant, token_id)
            if token.revoked_at is not None:
                raise NotFound("usable token", token_id)
            values = {"of_tenant": tenant, "of_token": token_id}
            connection.execute(_CHANGE.values(secret_hash=_hash(_require_hashing_key(connection), secret)), values)
            _end_sessions(connection, token_id)
        return token, _text(token, secret)

    def _with_last_use(self, found: dict[str, Token]) -> dict[str, Token]:
        """The tokens with their time of use, which is stored if the last one is a minute old."""
        now = datetime.now(UTC)
        late = {
            text: token
            for text, token in found.items()
            # Devices have a time of their own, and each of their polls would otherwise write two rows.
            if Scope.EDGE_POLL not in token.scopes and _last_use_before(token, now - _LAST_USE_INTERVAL)
        }
        if not late:
            return found
        used_at = now.isoformat()
        self._uses.add(late.values(), used_at)
        return found | {text: token.model_copy(update={"last_used_at": used_at}) for text, token in late.items()}


def insert_token(
    connection: Connection,
    tenant: str,
    name: str,
    scopes: tuple[Scope, ...],
    expires_at: str | None = None,
    session_of: str | None = None,
) -> tuple[Token, str]:
    """Create a token within the caller's transaction. ``expires_at`` is in UTC."""
    secret = secrets.token_urlsafe(32)
    token = Token(
        token_id=secrets.token_hex(8),
        tenant=tenant,
        name=name,
        scopes=tuple(scope for scope in Scope if scope in scopes),
        created_at=utc_now(),
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
    )
    row = token.model_dump(exclude={"scopes"}) | {
        "scopes": " ".join(token.scopes),
        "secret_hash": keyed_hash(connection, secret),
        "session_of": session_of,
    }
    connection.execute(insert_once(connection, TokenTable), row)
    return token, _text(token, secret)


def revoke_token(connection: Connection, tenant: str, token_id: str) -> None:
    """Revoke a token within the caller's transaction."""
    values = {"of_tenant": tenant, "of_token": token_id}
    connection.execute(_CHANGE.where(TokenTable.revoked_at.is_(None)).values(revoked_at=utc_now()), values)
    _end_sessions(connection, token_id)


def keyed_hash(connection: Connection, secret: str) -> bytes:
    """The hash under which a secret of at least 128 random bits is stored."""
    return _hash(_require_hashing_key(connection), secret)


def _end_sessions(connection: Connection, token_id: str) -> None:
    connection.execute(_END_SESSIONS, {"of_token": token_id, "at": utc_now()})


def _last_use_before(token: Token, moment: datetime) -> bool:
    return token.last_used_at is None or datetime.fromisoformat(token.last_used_at) <= moment


def _require_hashing_key(connection: Connection) -> bytes:
    """The key of all token hashes, in the database because all its servers need the same one.

    It prevents a reader of a row from confirming a guess. Secrets have 256 random bits and need no slower hash.
    """
    row = {
        "tenant": OPERATOR_TENANT,
        "name": _HASHING_KEY,
        "secret": secrets.token_bytes(32),
        "created_at": utc_now(),
    }
    connection.execute(insert_once(connection, ServerSecretTable), row)
    return connection.execute(_KEY).scalar_one()


def _hash(key: bytes, secret: str) -> bytes:
    return hmac.digest(key, secret.encode(), hashlib.sha256)


def _text(token: Token, secret: str) -> str:
    return f"tfk_{token.token_id}_{secret}"


def _in_utc(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadInput("expires_at", f"{text[:50]!r} is not a time.", "Write RFC 3339, such as 2027-01-02T03:04:05Z.")
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError as error:
        raise BadInput("expires_at", "It is not within the calendar.", "Write a date of this century.") from error


def _is_usable(row: AnyRow) -> bool:
    expires_at: str | None = row.expires_at
    is_live = expires_at is None or datetime.now(UTC) < datetime.fromisoformat(expires_at)
    return row.revoked_at is None and is_live


def _token_of(connection: Connection, tenant: str, token_id: str) -> Token:
    return _token(_row_of(connection, tenant, token_id))


def _row_of(connection: Connection, tenant: str, token_id: str) -> AnyRow:
    row = connection.execute(_ONE, {"tenant": tenant, "token_id": token_id}).one_or_none()
    if row is None:
        raise NotFound("token", token_id)
    return row


def _token(row: AnyRow) -> Token:
    return Token(
        token_id=row.token_id,
        tenant=row.tenant,
        name=row.name,
        scopes=tuple(Scope(scope) for scope in row.scopes.split()),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
