"""Conversion of a request's module and target to requests for the intake."""

import json
import re
from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.target_preset import preset_attributes
from tunefarm_services.api.bodies.module import ModuleBody, TaskBody
from tunefarm_services.api.http.json_nesting import excess_of
from tunefarm_services.api.intake.intake_messages import (
    ModuleAnswer,
    ModuleQuestion,
    ModuleText,
    TargetText,
    UnderstoodWorkload,
)
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.known_workloads import recognised

_TARGET_ID: Final = re.compile(r"[0-9a-f]{64}")
_SCRIPT: Final = re.compile(r"^[ \t]*(#|@|import\b|from\b|def\b|class\b)", re.MULTILINE)
LONGEST_TARGET: Final = 10_000
MAX_FUNCTIONS: Final = 1024
"""Limit for all modules of one request."""


def module_text(parts: Parts, tenant: str, body: ModuleBody) -> ModuleText:
    """The module of a request as text, from any source.

    Raises:
        BadInput: it cannot be TVM JSON.
        NotFound: the upload or workload does not exist.
        UploadIncomplete: not all of it has arrived.
    """
    name = body.name
    if body.workload_id is not None:
        workload = parts.store.workloads.get(tenant, body.workload_id)
        text, name = workload.module_json, body.name or workload.name
    elif body.upload_id is not None:
        text = _decoded(parts.store.uploads.content(tenant, body.upload_id))
    elif isinstance(body.module, str):
        text = body.module
    else:
        text = _json_text("module", body.module)
    _require_json(text, parts.settings.json_depth, parts.settings.module_json_values)
    return ModuleText(
        module_json=text,
        function=body.function,
        all_functions=body.all_functions,
        name=name,
        weight=body.weight if isinstance(body, TaskBody) else 1.0,
    )


def target_question(parts: Parts, tenant: str, given: str | dict[str, object] | None) -> TargetText | Target:
    """The request to the intake for a target; None for a stored target.

    Raises:
        NotFound: it is the id of a target that does not exist.
        BadInput: it is too long.
    """
    if given is None:
        given = parts.settings.default_target
    if isinstance(given, str) and _TARGET_ID.fullmatch(given):
        return parts.store.targets.get(given, tenant=tenant)
    if isinstance(given, str):
        given = preset_attributes(given) or given
    text = given if isinstance(given, str) else _json_text("target", given)
    if len(text) > LONGEST_TARGET:
        raise BadInput("target", "it is far too long.", "Send a preset, a tag, or TVM's target as an object.")
    if not text.strip():
        raise BadInput("target", "it is empty.", "Leave it out, or name a preset: GET /v1/targets:presets.")
    _require_small("target", text, parts.settings)
    return TargetText(text=text, host_cores=parts.settings.host_cores)


def understood(
    parts: Parts,
    tenant: str,
    bodies: Sequence[ModuleBody],
    target: TargetText | Target | None,
    *,
    sketches: Sequence[str] = (),
    seed_traces: Sequence[str] = (),
    of_model: bool = False,
) -> ModuleAnswer:
    """Read the modules of a request with their target and schedules.

    A function that the tenant has stored with other variable names resolves to the stored one.

    Raises:
        BadInput: a part of it is invalid.
        NotFound: an upload or a workload does not exist.
        ForkFailed: no child could be forked to read it.
    """
    for field, texts in (("space.sketches", sketches), ("seed_traces", seed_traces)):
        for text in texts:
            _require_small(field, text, parts.settings)
    question = ModuleQuestion(
        modules=_module_texts(parts, tenant, bodies),
        target=target,
        sketches=tuple(sketches),
        seed_traces=tuple(seed_traces),
        callees=parts.settings.callees.get(tenant, ()),
    )
    with parts.metrics.intake_seconds.labels(result="answered").time():
        answer = parts.intake.read(question)
    if len(answer.workloads) > MAX_FUNCTIONS:
        fix = f"Send at most {MAX_FUNCTIONS} in one request."
        raise BadInput("modules", f"they have {len(answer.workloads)} functions.", fix)
    return _recognised(parts, tenant, answer, of_model=of_model or answer.of_model)


def trace_text(value: str | list[object]) -> str:
    """A trace of a request as JSON text. Raises BadInput for numbers without a JSON form."""
    return value if isinstance(value, str) else _json_text("trace", value)


def _json_text(field: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise BadInput(field, "it has a number beyond what a float holds.", "Write a smaller number.") from error


def _require_small(field: str, text: str, settings: ApiSettings) -> None:
    """Raises BadInput for JSON text that is too expensive to decode, such as text inside a checked body."""
    excess = excess_of(text, settings.json_depth, settings.json_values)
    if excess:
        raise BadInput(field, excess, "Send TVM's output unchanged.")


def _recognised(parts: Parts, tenant: str, answer: ModuleAnswer, *, of_model: bool) -> ModuleAnswer:
    given = [each.workload for each in answer.workloads]
    with_schedules = bool(answer.sketches or answer.seed_traces)
    known = recognised(
        parts.store.workloads, tenant, given, parts.intake.same, with_schedules=with_schedules, of_model=of_model
    )
    workloads = tuple(
        UnderstoodWorkload(workload=workload, weight=each.weight)
        for each, workload in zip(answer.workloads, known, strict=True)
    )
    return answer.model_copy(update={"workloads": workloads})


def _module_texts(parts: Parts, tenant: str, bodies: Sequence[ModuleBody]) -> tuple[ModuleText, ...]:
    """All modules of a request, one after the other, because each may be as large as an upload."""
    modules: list[ModuleText] = []
    size = 0
    for body in bodies:
        modules.append(module_text(parts, tenant, body))
        size += len(modules[-1].module_json)
        if size > parts.settings.upload_bytes:
            fix = "Send fewer modules in one request."
            raise BadInput("modules", f"they have more than {parts.settings.upload_bytes} bytes together.", fix)
    return tuple(modules)


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        fix = "Upload the text that tvm.ir.save_json returns; pickles, libraries and models are not read."
        raise BadInput("upload_id", "its content is not text.", fix) from error


def _require_json(text: str, depth: int, values: int) -> None:
    if text.lstrip()[:1] != "{":
        is_script = _SCRIPT.search(text[:10_000]) is not None
        problem = "it is TVMScript, which is code and never read here." if is_script else "it is not TVM JSON."
        fix = "Convert it where you trust it, with tvm.ir.save_json(module); the tunefarm client does it for you."
        raise BadInput("module", problem, fix)
    excess = excess_of(text, depth, values)
    if excess:
        raise BadInput("module", excess, "Send the output of tvm.ir.save_json, or fewer functions in one module.")
