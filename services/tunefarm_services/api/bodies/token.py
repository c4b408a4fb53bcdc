"""Making tokens."""

from pydantic import Field

from tunefarm_schemas.token import Scope
from tunefarm_services.api.bodies.body import Body, Instant, Name, with_examples


class TokenBody(Body):
    """A token of the caller's tenant. Its scopes must be a subset of the caller's."""

    model_config = with_examples(
        {
            "name": "continuous integration",
            "scopes": ["jobs:read", "jobs:write"],
            "expires_at": "2027-01-01T00:00:00Z",
        }
    )

    name: Name
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    expires_at: Instant = Field(default=None, description="RFC 3339 with an offset; never if absent.")
