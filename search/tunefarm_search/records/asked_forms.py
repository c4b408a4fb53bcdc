"""The forms in which stock TVM asks its database for the function that a workload stands for.

``MetaScheduleApplyDatabase`` declares the arguments of a function to be free of aliases before it asks, and leaves it
its symbol: that of a private function becomes ``main``, that of a public one is its name. A workload is always called
``main``, and declares nothing that its user did not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import tvm
import tvm_ffi
from tvm_ffi.serialization import to_json_graph_str

from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.workload import ENTRY, functions_of, workload_of

NO_ALIAS: Final = "tirx.noalias"
MARK: Final = "tunefarm_workload_id"
"""In the metadata of a form's text: which workload it is a form of. TVM reads past it."""


@dataclass(frozen=True)
class Form:
    """A module that stands for a workload, as text and with TVM's hash: the workload's own, or what TVM asks with."""

    workload_id: str
    structural_hash: str
    module_json: str


def forms_of(workloads: Iterable[Workload]) -> list[Form]:
    """The workloads as they are, and behind them all other forms in which TVM asks for them.

    A form that is structurally equal to something that is written already is left out: TVM's database numbers what is
    committed later by how many different workloads it has.
    """
    forms: list[Form] = []
    asked: list[tuple[str, Any]] = []
    written: dict[str, list[Any]] = {}
    for workload in workloads:
        module = tvm.ir.load_json(workload.module_json)
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
    """The workload of that id, if ``module`` is a form of it: it lacks at most what TVM declares."""
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
