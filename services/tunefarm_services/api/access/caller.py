"""Who is asking, and whether they may."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from tunefarm_schemas.token import Scope, Token
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind, unauthenticated

STATE_KEY: Final = "tunefarm_token"
"""Where the authentication leaves the caller's token in a request's scope."""

LONGEST_TOKEN: Final = 200

SCOPES_OF: Final[dict[object, tuple[Scope, ...]]] = {}
"""The scopes that each dependency on a caller asks for, so that the OpenAPI document can name them."""

_BEARER: Final = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="A token of `tunefarm token create` or `POST /v1/tokens`: `tfk_...`. Each operation names its scopes.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a valid token. Everything done for it is done within its tenant."""

    token: Token

    @property
    def tenant(self) -> str:
        """Whose rows the caller sees."""
        return self.token.tenant

    def may(self, scope: Scope) -> bool:
        """Whether the token has a scope."""
        return scope in self.token.scopes


def bearer_text(headers: Headers) -> str:
    """The text of the token that a request shows; empty when it shows none."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    text = text.strip()
    return text if scheme.lower() == "bearer" and len(text) <= LONGEST_TOKEN else ""


def caller_with(*scopes: Scope) -> Any:
    """A route's dependency on a caller who has all ``scopes``."""

    async def caller(request: Request, _credentials: Annotated[object, Security(_BEARER)] = None) -> Caller:
        token = request.scope.get(STATE_KEY)
        if not isinstance(token, Token):
            raise unauthenticated()
        missing = [scope.value for scope in scopes if scope not in token.scopes]
        if missing:
            raise ApiProblem(ProblemKind.FORBIDDEN, f"This needs a token with the scope {', '.join(missing)}.")
        return Caller(token)

    check: Callable[..., Awaitable[Caller]] = caller
    SCOPES_OF[check] = scopes
    return Depends(check)


JobsReader: TypeAlias = Annotated[Caller, caller_with(Scope.JOBS_READ)]
JobsWriter: TypeAlias = Annotated[Caller, caller_with(Scope.JOBS_WRITE)]
RecordsReader: TypeAlias = Annotated[Caller, caller_with(Scope.RECORDS_READ)]
RecordsWriter: TypeAlias = Annotated[Caller, caller_with(Scope.RECORDS_WRITE)]
DevicesReader: TypeAlias = Annotated[Caller, caller_with(Scope.DEVICES_READ)]
DevicesAdmin: TypeAlias = Annotated[Caller, caller_with(Scope.DEVICES_ADMIN)]
ArtifactsReader: TypeAlias = Annotated[Caller, caller_with(Scope.ARTIFACTS_READ)]
TokensAdmin: TypeAlias = Annotated[Caller, caller_with(Scope.TOKENS_ADMIN)]
UsageReader: TypeAlias = Annotated[Caller, caller_with(Scope.USAGE_READ)]
AnyCaller: TypeAlias = Annotated[Caller, caller_with()]
