"""Asking about a target."""

from pydantic import Field

from tunefarm_services.api.bodies.body import Body


class TargetBody(Body):
    """A target to be checked and brought into canonical form."""

    target: str | dict[str, object] = Field(
        description="What a job takes as its target.", examples=["host", {"kind": "llvm", "mcpu": "znver4"}]
    )
