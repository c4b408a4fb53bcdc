"""Modules in requests: inline, from an upload, or by the id of a stored workload."""

from typing import Final, Self

from pydantic import Field, model_validator

from tunefarm_services.api.bodies.body import MODULE_EXAMPLE, Body, Identifier, Name, with_examples
from tunefarm_services.api.problems.field_errors import FieldError

_SOURCES: Final = ("module", "upload_id", "workload_id")
_SEND_ONE: Final = (
    "Send the text or the object that tvm.ir.save_json writes, or refer to stored content by upload_id or workload_id."
)


class ModuleBody(Body):
    """One IRModule with TIR functions, in the JSON form that ``tvm.ir.save_json`` writes. TVMScript is not read."""

    model_config = with_examples({"module": MODULE_EXAMPLE, "function": "main"}, {"upload_id": "up_1"})

    module: str | dict[str, object] | None = Field(
        default=None,
        repr=False,
        description="TVM JSON, as text or as the object itself.",
        examples=[MODULE_EXAMPLE],
    )
    upload_id: Identifier | None = Field(default=None, description="A complete upload with TVM JSON.")
    workload_id: Identifier | None = Field(default=None, description="A stored workload.")
    function: Name | None = Field(default=None, description="The function to use, if the module has several.")
    all_functions: bool = Field(default=False, description="Use every function of the module.")
    name: Name | None = Field(default=None, description="The name of the workload; the function's name by default.")

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        given = [name for name in _SOURCES if getattr(self, name) is not None]
        if not given:
            raise FieldError("module", f"It is missing. {_SEND_ONE}")
        if len(given) > 1:
            raise FieldError(given[1], f"It is given beside {given[0]}. Give exactly one of {', '.join(_SOURCES)}.")
        return self


class TaskBody(ModuleBody):
    """A module to tune, with the number of calls of its function in the model."""

    model_config = with_examples({"upload_id": "up_1", "all_functions": True, "weight": 3})

    weight: float = Field(default=1.0, gt=0, le=1e9)
