"""Asking about a target."""

from pydantic import Field

from tunefarm_services.api.bodies.body import Body, with_examples


class TargetBody(Body):
    """A target to be checked and brought into canonical form."""

    model_config = with_examples({"target": "host"}, {"target": {"kind": "llvm", "mcpu": "znver4"}})

    target: str | dict[str, object] = Field(description="What a job takes as its target.")
