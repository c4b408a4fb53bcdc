"""The forms in which unmodified TVM looks up a workload's function in its database.

``MetaScheduleApplyDatabase`` declares the arguments of a function free of aliases before the lookup, and keeps its
symbol: that of a private function becomes ``main``, that of a public one is its name. A workload is always called
``main``, and declares only what its user declared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import tvm
import tvm_ffi
from tvm_ffi.serialization import to_json_graph_str

from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import ENTRY, functions_of, workload_of

NO_ALIAS: Final = "tirx.noalias"
MARK: Final = "tunefarm_workload_id"
"""Metadata key of a form's text: the workload that it is a form of. TVM ignores it."""


@dataclass(frozen=True)
class Form:
    """A module that stands for a workload, as text and with TVM's hash: its own, or one that TVM looks up."""

    workload_id: str
    structural_hash: str
    module_json: str


def forms_of(workloads: Iterable[Workload]) -> list[Form]:
    """Return the workloads, followed by all other forms in which TVM looks them up.

    Skips a form that is structurally equal to one that is already written: TVM's database numbers later entries by the
    number of different workloads.
    """
    forms: list[Form] = []
    asked: list[tuple[str, Any]] = []
    written: dict[str, list[Any]] = {}
    for workload in workloads:
        module = load_json(workload.module_json)
        structural_hash = hash_of(module)
        written.setdefault(structural_hash, []).append(module)
        forms.append(Form(workload.workload_id, structural_hash, workload.module_json))
        asked += [(workload.workload_id, form) for form in _asked_with(module, workload.name)]
    for workload_id, form in asked:
        structural_hash = hash_of(form)
        alike = written.setdefault(structural_hash, [])
        if not any(tvm_ffi.structural_equal(form, module) for module in alike):
            alike.append(form)
            forms.append(Form(workload_id, structural_hash, _marked(form, workload_id)))
    return forms


def workload_of_form(module: Any, workload_id: str) -> Workload | None:
    """Return the workload of that id if ``module`` is a form of it: only TVM's declarations may be missing."""
    [function] = functions_of(module).values()
    meant = (workload_of(each) for each in (function, function.without_attr(NO_ALIAS)))
    return next((workload for workload in meant if workload.workload_id == workload_id), None)


def hash_of(module: Any) -> str:
    """TVM's structural hash, as decimal text."""
    return str(tvm_ffi.structural_hash(module))


def _asked_with(module: Any, name: str) -> list[Any]:
    function = module[ENTRY].with_attr(NO_ALIAS, True)
    symbols = [ENTRY, name] if name.isidentifier() and name != ENTRY else [ENTRY]
    return [tvm.IRModule({ENTRY: function.with_attr("global_symbol", symbol)}) for symbol in symbols]


def _marked(module: Any, workload_id: str) -> str:
    return str(to_json_graph_str(module, {"tvm_version": str(tvm.__version__), MARK: workload_id}))
