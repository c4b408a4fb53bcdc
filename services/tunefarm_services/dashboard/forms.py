"""Forms that create something: each is carried out once, however often it is sent."""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.store import Answered, Claimed, InProgress, Mismatch
from tunefarm_services.store.tenants.idempotency_key_repository import IdempotencyKeyRepository

ONCE: Final = "once"
"""Name of the field with the key under which a form is carried out."""
_KEY_CHARACTERS: Final = 32


def once_key() -> str:
    """A key for a new form."""
    return secrets.token_hex(_KEY_CHARACTERS // 2)


def carried_out_once(
    keys: IdempotencyKeyRepository, tenant: str, address: str, fields: Mapping[str, str], work: Callable[[str], str]
) -> tuple[str, bool]:
    """The location that ``work``, given the key, returns, and whether this call did it. A repeated form gets the same.

    Raises:
        PageProblem: the form has no key, was changed after it was sent, or is being carried out.
    """
    key = fields.get(ONCE, "")
    if len(key) != _KEY_CHARACTERS or not key.isalnum() or not key.isascii():
        raise PageProblem(400, "This form has no key. Open its page again.")
    key = f"form-{key}"
    sent = digest(canonical_json([address, {name: value for name, value in fields.items() if name != "form_key"}]))
    match keys.claim(tenant, key, sent):
        case Answered(headers=headers):
            return headers["location"], False
        case InProgress():
            raise PageProblem(409, "This form is being carried out. Reload in a moment.")
        case Mismatch():
            raise PageProblem(409, "This form was sent before with other values. Open its page again.")
        case Claimed():
            pass
    try:
        location = work(key)
    except BaseException:
        keys.forget(tenant, key)
        raise
    keys.answer(tenant, key, 303, {"location": location}, b"")
    return location, True
