"""The caller of a request and its permissions."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from tunefarm_schemas.token import Scope, Token
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind, unauthenticated
from tunefarm_services.dashboard.session import STATE_KEY

LONGEST_TOKEN: Final = 200

SCOPES_OF: Final[dict[object, tuple[Scope, ...]]] = {}
"""The scopes that each dependency on a caller requires, for the OpenAPI document."""
ANY_OF: Final[set[object]] = set()
"""The dependencies of which one of the scopes is enough."""

_BEARER: Final = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="A token from `tunefarm token create` or `POST /v1/tokens`: `tfk_...`. Operations list their scopes.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a valid token. A request only accesses data of its tenant."""

    token: Token

    @property
    def tenant(self) -> str:
        """The tenant whose rows the caller sees."""
        return self.token.tenant

    def may(self, scope: Scope) -> bool:
        """Whether the token has a scope."""
        return scope in self.token.scopes


def bearer_text(headers: Headers) -> str:
    """The token text of a request; empty if there is none."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    text = text.strip()
    return text if scheme.lower() == "bearer" and len(text) <= LONGEST_TOKEN else ""


def caller_with(*scopes: Scope) -> Any:
    """A route dependency that requires a caller with all ``scopes``."""

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


def caller_with_any(*scopes: Scope) -> Any:
    """A route dependency that requires a caller with one of ``scopes``."""

    async def caller(request: Request, _credentials: Annotated[object, Security(_BEARER)] = None) -> Caller:
        token = request.scope.get(STATE_KEY)
        if not isinstance(token, Token):
            raise unauthenticated()
        if not set(scopes).intersection(token.scopes):
            named = " or ".join(scope.value for scope in scopes)
            raise ApiProblem(ProblemKind.FORBIDDEN, f"This needs a token with the scope {named}.")
        return Caller(token)

    check: Callable[..., Awaitable[Caller]] = caller
    ANY_OF.add(check)
    SCOPES_OF[check] = scopes
    return Depends(check)


JobsReader: TypeAlias = Annotated[Caller, caller_with(Scope.JOBS_READ)]
JobsWriter: TypeAlias = Annotated[Caller, caller_with(Scope.JOBS_WRITE)]
RecordsReader: TypeAlias = Annotated[Caller, caller_with(Scope.RECORDS_READ)]
FieldReader: TypeAlias = Annotated[Caller, caller_with(Scope.RECORDS_READ, Scope.DEVICES_READ)]
JobFieldReader: TypeAlias = Annotated[Caller, caller_with(Scope.JOBS_READ, Scope.DEVICES_READ)]
RecordsWriter: TypeAlias = Annotated[Caller, caller_with(Scope.RECORDS_WRITE)]
DevicesReader: TypeAlias = Annotated[Caller, caller_with(Scope.DEVICES_READ)]
DevicesAdmin: TypeAlias = Annotated[Caller, caller_with(Scope.DEVICES_ADMIN)]
ArtifactsReader: TypeAlias = Annotated[Caller, caller_with(Scope.ARTIFACTS_READ)]
ReleasePublisher: TypeAlias = Annotated[Caller, caller_with(Scope.ARTIFACTS_PUBLISH)]
ReleaseReader: TypeAlias = Annotated[Caller, caller_with_any(Scope.EDGE_POLL, Scope.ARTIFACTS_READ)]
TokensAdmin: TypeAlias = Annotated[Caller, caller_with(Scope.TOKENS_ADMIN)]
UsageReader: TypeAlias = Annotated[Caller, caller_with(Scope.USAGE_READ)]
EdgePoller: TypeAlias = Annotated[Caller, caller_with(Scope.EDGE_POLL)]
AnyCaller: TypeAlias = Annotated[Caller, caller_with()]
