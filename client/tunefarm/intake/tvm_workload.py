"""Converts TVM's modules and targets to workloads and targets. Imports TVM."""

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.records.asked_forms import NO_ALIAS
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.trace import plain
from tunefarm_search.tvm.workload import workload_of


def target_attributes(target: Any) -> dict[str, Any]:
    """The attributes of a TVM target for a service, without those that TVM derives."""
    exported: dict[str, Any] = plain(target.export())
    return {name: value for name, value in exported.items() if not name.startswith("feature.")}


def target_of(target: Any) -> Target:
    """The canonical form of a TVM target.

    Raises:
        BadInput: the target has no canonical form.
    """
    return canonical_target(target_attributes(target)).target


def workloads_of(module: Any) -> Iterator[Workload]:
    """The workload of a module, and the workload without the attribute that TVM adds before it queries a database.

    Empty for a module that cannot be tuned, for which no database has records.
    """
    try:
        yield workload_of(module)
        stripped = _without_no_alias(module)
        if stripped is not None:
            yield workload_of(stripped)
    except BadInput:
        return


def is_same(first: Workload, second: Workload) -> bool:
    """Whether two workloads are structurally equal; an equal hash alone is not enough."""
    if first.workload_id == second.workload_id:
        return True
    modules = [load_json(workload.module_json) for workload in (first, second)]
    return bool(tvm_ffi.structural_equal(*modules))


def _without_no_alias(module: Any) -> Any | None:
    functions = list(module.functions_items()) if isinstance(module, tvm.IRModule) else [("main", module)]
    if len(functions) != 1:
        return None
    name, function = functions[0]
    if not (function.attrs and NO_ALIAS in function.attrs):
        return None
    return tvm.IRModule({getattr(name, "name_hint", name): function.without_attr(NO_ALIAS)})
