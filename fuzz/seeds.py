"""Valid input to mutate: modules, traces and a database in the forms that TVM writes."""

import json
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te
from tvm.s_tir import Schedule

from tunefarm.builtin.catalogue import parse_builtin
from tunefarm.builtin.expressions import create_builtin
from tunefarm_search.records.tvm_database import export_database
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.tvm.workload import workload_of

TARGET = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'


@dataclass(frozen=True)
class Seed:
    """A module with some traces that apply to it, each as JSON text."""

    module_json: str
    traces: tuple[str, ...]


def seeds() -> tuple[Seed, ...]:
    """Small functions: a product with and without an epilogue, and an element-wise one."""
    functions = (
        create_builtin(parse_builtin("matmul:32x32x32")),
        create_builtin(parse_builtin("matmul_bias_relu:16x16x16")),
        _elementwise(),
    )
    return tuple(_seed(function) for function in functions)


def database_texts() -> tuple[tuple[str, str], ...]:
    """Both files of a TVM database, for each seed: workloads, records."""
    target = canonical_target(TARGET, 2).target
    found = []
    for seed in seeds():
        workload = workload_of(tvm.ir.load_json(seed.module_json), None, name="main")
        traces = [_applied(seed.module_json, text) for text in seed.traces]
        database = export_database((workload, target, trace_of(schedule), [1e-5]) for schedule in traces)
        found.append((database.workloads, database.records))
    return tuple(found)


def _elementwise() -> Any:
    a = te.placeholder((64, 8), name="A")
    return te.create_prim_func([a, te.compute((64, 8), lambda i, j: te.exp(a[i, j]) + 1.0, name="C")])


def _seed(function: Any) -> Seed:
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    module_json = str(tvm.ir.save_json(module))
    return Seed(
        module_json, tuple(trace_of(each).text for each in (_tiled(module), _annotated(module), _moved(module)))
    )


def _block(schedule: Any) -> Any:
    return schedule.get_child_blocks(schedule.get_sblock("root", func_name="main"))[0]


def _tiled(module: Any) -> Any:
    schedule = Schedule(module, seed=1)
    block = _block(schedule)
    outer, *_ = schedule.get_loops(block)
    parts = schedule.split(outer, schedule.sample_perfect_tile(outer, n=2))
    schedule.parallel(parts[0])
    return schedule


def _annotated(module: Any) -> Any:
    schedule = Schedule(module, seed=2)
    block = _block(schedule)
    loop = schedule.get_loops(block)[0]
    schedule.annotate(block, "meta_schedule.unroll_explicit", schedule.sample_categorical([0, 16], [0.5, 0.5]))
    schedule.annotate(loop, "pragma_auto_unroll_max_step", 16)
    return schedule


def _moved(module: Any) -> Any:
    schedule = Schedule(module, seed=3)
    block = _block(schedule)
    first, second, *_ = schedule.get_loops(block)
    schedule.reorder(second, first)
    schedule.cache_write(block, 0, "global")
    schedule.transform_layout(block, ("write", 0), lambda i, j: (j, i))
    return schedule


def _applied(module_json: str, text: str) -> Any:
    schedule = Schedule(tvm.ir.load_json(module_json))
    from tunefarm_search.validation.trace_application import apply_steps

    apply_steps(json.loads(text), schedule)
    return schedule
