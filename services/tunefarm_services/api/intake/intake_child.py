"""The intake child: the only place in the API where TVM reads untrusted input.

It runs confined, with limits on time and memory, in a process that handles one request and may die doing so.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.records.tvm_database import export_database
from tunefarm_search.relax.placeholders import has_weights, is_model, tasks_without_weights
from tunefarm_search.tvm.target import CanonicalTarget, canonical_target, host_target
from tunefarm_search.tvm.target_attributes import require_measured_kind
from tunefarm_search.tvm.workload import functions_of, untuned_functions
from tunefarm_search.validation.foreign_input import (
    foreign_module,
    foreign_sketch,
    foreign_trace,
    foreign_workload,
)
from tunefarm_services.api.intake.intake_messages import (
    SHARED,
    DatabaseEntries,
    DatabaseText,
    ModuleAnswer,
    ModuleQuestion,
    ModuleText,
    TargetAnswer,
    TargetText,
    UnderstoodWorkload,
)
from tunefarm_services.api.intake.target_presets import PRESETS

MAX_NAMED, LONGEST_NAME = 64, 200
"""Maximum number of functions that are not tuned but named: the names become part of the job."""


def understand(question: ModuleQuestion) -> ModuleAnswer:
    """Read all parts of a request that require TVM.

    Raises:
        BadInput: a part of it is invalid.
    """
    chosen = understand_target(question.target) if isinstance(question.target, TargetText) else None
    known = question.target if isinstance(question.target, Target) else None
    target = chosen.target if chosen is not None else known
    callees = question.callees
    workloads: list[UnderstoodWorkload] = []
    untuned: list[str] = []
    of_model = is_whole = False
    for text in question.modules:
        module = foreign_module(text.module_json)
        if target is not None and is_model(module, all_functions=text.all_functions or text.function is not None):
            workloads += _model_workloads(module, text, target, callees)
            of_model, is_whole = True, len(question.modules) == 1 and has_weights(module)
            continue
        workloads += _workloads(module, text, callees)
        untuned += [name[:LONGEST_NAME] for name in untuned_functions(module)[: MAX_NAMED - len(untuned)]]
    only = _only(workloads, question)
    return ModuleAnswer(
        workloads=tuple(workloads),
        target=target,
        sketches=tuple(foreign_sketch(only, text, callees) for text in question.sketches) if only else (),
        seed_traces=tuple(foreign_trace(only, text, callees) for text in question.seed_traces) if only else (),
        notes=() if chosen is None else chosen.notes,
        untuned_functions=tuple(untuned),
        of_model=of_model,
        has_weights=is_whole,
    )


def understand_target(question: TargetText) -> TargetAnswer:
    """Convert a text to a canonical target.

    Raises:
        BadInput: TVM does not know it, or it is not allowed in requests.
    """
    name, _, threads = question.text.strip().partition(":")
    cores = question.host_cores or usable_physical_cores()
    if name == "host":
        if threads and not (threads.isascii() and threads.isdigit() and 0 < int(threads) <= 1024):
            raise BadInput("target", f"{threads[:20]!r} is not a number of threads.", "Write, say, host:2.")
        wanted = int(threads) if threads else cores
        note = f"target: {wanted} {SHARED} this host's {cores} cores; times say little about {wanted} cores"
        return TargetAnswer(target=host_target(wanted), notes=(note,) if wanted > cores else ())
    found = _found_target(question.text, cores)
    return TargetAnswer(target=found.target, notes=found.notes)


def _found_target(text: str, cores: int) -> CanonicalTarget:
    try:
        return canonical_target(text, cores, tuned=True)
    except BadInput as refused:
        if text.lstrip().startswith("{"):
            # TVM looks for the tools of some kinds, which a confined process may not start.
            with suppress(ValueError):
                require_measured_kind(json.loads(text))
            raise
        problem = f"{text[:80]!r} is not a preset. {refused.problem}"
        presets = ", ".join(preset.name for preset in PRESETS)
        fix = f"Name one of {presets}, or a tag of TVM's, or write its target as JSON."
        raise BadInput(refused.field, problem, fix) from refused


def _workloads(module: Any, text: ModuleText, callees: Sequence[str]) -> list[UnderstoodWorkload]:
    functions = functions_of(module)
    names: Sequence[str | None] = [text.function]
    if text.all_functions:
        names = sorted(functions)
    elif text.function is None and len(functions) > 1:
        fix = f"Choose one as function, or set all_functions: {', '.join(sorted(functions))}."
        raise BadInput("function", f"the module has {len(functions)} functions.", fix)
    name = None if text.all_functions else text.name
    found = [foreign_workload(module, each, name, callees) for each in names]
    return [UnderstoodWorkload(workload=workload, weight=text.weight) for workload in found]


def _model_workloads(module: Any, text: ModuleText, target: Target, callees: Sequence[str]) -> list[UnderstoodWorkload]:
    """The functions of a model, as they result with any weights of its shapes."""
    if text.function is not None:
        raise BadInput("function", "the module is a model, of which all functions are tuned.", "Omit it.")
    try:
        tasks = tasks_without_weights(module, target)
    except BadInput as refused:
        raise BadInput("module", refused.problem, refused.fix) from refused
    return [
        UnderstoodWorkload(
            workload=foreign_workload(foreign_module(task.workload.module_json), None, task.workload.name, callees),
            weight=text.weight * sum(task.calls.values()),
        )
        for task in tasks
    ]


def _only(workloads: Sequence[UnderstoodWorkload], question: ModuleQuestion) -> Workload | None:
    if not question.sketches and not question.seed_traces:
        return None
    if len(workloads) > 1:
        field = "space" if question.sketches else "seed_traces"
        fix = "Make a job of its own for each function that has schedules."
        raise BadInput(field, "a schedule fits one function, and several are tuned.", fix)
    return workloads[0].workload


def _database_text(entries: DatabaseEntries) -> DatabaseText:
    database = export_database(
        (workload, target, entry.trace, [entry.latency_s]) for entry, workload, target in entries.whole()
    )
    return DatabaseText(workloads=database.workloads, records=database.records)


read = answering(ModuleQuestion, understand)
target = answering(TargetText, understand_target)
write_database = answering(DatabaseEntries, _database_text)
