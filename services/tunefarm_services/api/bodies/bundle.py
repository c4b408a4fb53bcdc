"""The body that asks for a bundle."""

from typing import Self

from pydantic import Field, model_validator

from tunefarm_schemas.tuning.bundle import BundleForm
from tunefarm_services.api.bodies.body import Body, Identifier, Name, TargetText, with_examples
from tunefarm_services.api.problems.field_errors import FieldError

MAX_RECORDS = 256


class BundleBody(Body):
    """Verified records, or the job whose tasks have them, or a model, and the form of the bundle."""

    model_config = with_examples(
        {"record_ids": ["aa6c9b35957f46f39df26b76216d06ca"], "form": "library"},
        {"job_id": "0193a7c2f4b1e5d0a6c3f", "form": "c", "target": "raspberry-pi-4", "name": "detector"},
        {"job_id": "0193a7c2f4b1e5d0a6c3f", "form": "wasm", "name": "detector"},
    )

    record_ids: list[Identifier] = Field(default=[], max_length=MAX_RECORDS, description="Each becomes a function.")
    job_id: Identifier | None = Field(
        default=None, description="In place of records: those of its tasks, or the model whose functions they are."
    )
    upload_id: Identifier | None = Field(
        default=None,
        description="In place of records: a complete upload with a Relax model as TVM JSON, its weights as constants. "
        "Beside job_id: the model of that job, if the job does not keep it.",
    )
    functions_only: bool = Field(
        default=False, description="Of a job of a model: the functions of its records, without plan and weights."
    )
    form: BundleForm
    target: TargetText = Field(default=None, description="What to compile for. Default: the records' target.")
    name: Name | None = Field(
        default=None,
        max_length=100,
        description="A part of the identifiers in the sources. Default: network for a model, else functions.",
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        is_of_model = self.job_id is not None or self.upload_id is not None
        if bool(self.record_ids) == is_of_model:
            raise FieldError("record_ids", "Give record_ids, or job_id, or upload_id, or the latter two.")
        if self.functions_only and (self.job_id is None or self.upload_id is not None):
            raise FieldError("functions_only", "It applies to job_id alone. Omit it.")
        if len(set(self.record_ids)) < len(self.record_ids):
            raise FieldError("record_ids", "A record is named twice. Name each once.")
        return self
