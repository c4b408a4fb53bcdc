"""The common root of request bodies."""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints


class Body(BaseModel):
    """A body that is closed against unknown fields, so that a misspelt one is told instead of ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Identifier: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=4000, pattern=r"^[^\x00]*$")]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1e9)]

TargetText: TypeAlias = Annotated[
    str | dict[str, object] | None,
    Field(
        description=(
            "The name of a preset (GET /v1/targets:presets), a TVM tag, the id of a stored target, or TVM's target "
            "as an object or its JSON text. Without it the service's default is taken."
        ),
        examples=["host", {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}],
    ),
]
