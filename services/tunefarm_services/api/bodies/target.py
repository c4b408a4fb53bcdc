"""The body that validates a target."""

from pydantic import Field

from tunefarm_services.api.bodies.body import Body, with_examples


class TargetBody(Body):
    """A target to check and convert to canonical form."""

    model_config = with_examples({"target": "host"}, {"target": {"kind": "llvm", "mcpu": "znver4"}})

    target: str | dict[str, object] = Field(description="A target in any form that a job accepts.")
