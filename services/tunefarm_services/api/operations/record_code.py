"""The code of a record, written by an intake child when it is the tenant's turn."""

from anyio import to_thread

from tunefarm_schemas.views.record import CodeForm, RecordCode
from tunefarm_services.api.operations.parts import Parts


async def record_code(parts: Parts, tenant: str, record_id: str, form: CodeForm) -> RecordCode:
    """The text, without a turn if it is kept.

    Raises:
        ApiProblem: too many requests are waiting.
        Exception: as ``RecordCodes.get``.
    """
    codes = parts.record_codes
    known = await to_thread.run_sync(codes.known, tenant, record_id, form)
    if known is not None:
        return known
    return await parts.run_intake(tenant, lambda: codes.get(tenant, record_id, form))
