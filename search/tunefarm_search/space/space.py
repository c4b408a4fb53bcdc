"""Spaces: the sketches for a workload on a target."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm.s_tir import meta_schedule

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Space, Trace
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_search.space.attention_tiling import (
    attention_schedule,
    lane_sums_schedule,
    sampled_keys,
    sampled_rows,
)
from tunefarm_search.space.decisions import SketchSpace, sketch_space
from tunefarm_search.space.dot_product_tiling import SampledTile, dot_product_schedule
from tunefarm_search.space.elementwise_inlining import ELEMENTARY_CALLS, ElementwiseInlining
from tunefarm_search.space.lowering_check import LoweringCheck
from tunefarm_search.space.matrix_tiling import matrix_tile_schedule
from tunefarm_search.space.streamed_reduction import StreamedReduction
from tunefarm_search.space.tiled_movement import TiledMovement
from tunefarm_search.space.winograd_transforms import sampled_factors, transform_schedule
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.target import FLOAT_BYTES, tvm_target, vector_bytes
from tunefarm_search.tvm.tensor_intrinsics.of_tvm import leave_intrinsics_out, load_intrinsics_for
from tunefarm_search.tvm.trace import steps_of, trace_of
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import named_callees
from tunefarm_search.validation.written_results import writes_all_results

RUNS_OF_A_SCHEDULE_FUNCTION = 16


@dataclass(frozen=True)
class SearchSpace:
    """All sketches of one workload on one target, and what turns a point into a candidate.

    Attributes:
        module: TVM's ``IRModule`` of the workload.
        postprocessors: TVM's, initialised for the target, and ours; each may change or reject a schedule.
    """

    module: Any
    target: Target
    postprocessors: tuple[Any, ...]
    sketches: tuple[SketchSpace, ...]

    @property
    def points(self) -> float:
        """Total number of points of all sketches."""
        return sum(sketch.points for sketch in self.sketches)

    def with_sketch_of(self, trace: Trace) -> "SearchSpace":
        """Return the space with the sketch of a trace added, unless it contains it.

        Raises:
            ValueError: the trace cannot be parsed or lacks decisions.
        """
        if self.sketch_of(trace) is not None:
            return self
        added = sketch_space(len(self.sketches), trace)
        return SearchSpace(self.module, self.target, self.postprocessors, (*self.sketches, added))

    def sketch_of(self, trace: Trace) -> SketchSpace | None:
        """The sketch that a trace completes, or None."""
        text = steps_of(trace).sketch.text
        return next((sketch for sketch in self.sketches if sketch.steps.sketch.text == text), None)


def search_space(module: Any, target: Target, abi: Abi, space: Space) -> SearchSpace:
    """Build the space that a job requests.

    Raises:
        BadInput: no sketch of it fits the workload.
    """
    context = _context(module, target, abi)
    if space.automatic:
        own = _own_sketch(module, target)
        traces = own or [
            trace_of(schedule) for schedule in context.generate_design_space() if writes_all_results(schedule.mod)
        ]
    else:
        traces = [trace for sketch in space.sketches for trace in _filled(module, sketch)]
    by_text = {steps_of(trace).sketch.text: trace for trace in traces}
    if not by_text:
        raise BadInput("space", "none of its sketches fits the workload.", "Check names of blocks and loops.")
    sketches = tuple(sketch_space(number, trace) for number, trace in enumerate(by_text.values()))
    checks = [LoweringCheck(target)] if target.kind == "cuda" else []
    return SearchSpace(module, target, (*context.space_generator.postprocs, *checks), sketches)


def _own_sketch(module: Any, target: Target) -> list[Trace]:
    """The sketch for 8-bit dot products, a transform of Winograd's algorithm or attention, if the function is one.

    TVM's sketches are left out then: they are many times slower.
    """
    ways = [partial(each, module, target, SampledTile) for each in (matrix_tile_schedule, dot_product_schedule)]
    if target.kind == "llvm":
        lanes, threads = vector_bytes(target) // FLOAT_BYTES, {"is_parallel": target.num_cores > 1}
        ways.append(partial(transform_schedule, module, sampled_factors, **threads))
        ways.append(partial(attention_schedule, module, sampled_rows, lanes, **threads))
        ways.append(partial(lane_sums_schedule, module, sampled_keys, **threads))
    for schedule_of in ways:
        try:
            schedule = schedule_of(seed=1)
        except TVM_ERRORS:
            continue
        if schedule is not None:
            return [trace_of(schedule)]
    return []


def sketches_of(schedule_function: Callable[[Any], Any], module: Any, target: Target) -> tuple[Sketch, ...]:
    """Run a user's schedule function several times and keep its instructions, without its decisions.

    The function gets a ``tvm.s_tir.Schedule`` of the workload and changes it, or returns one schedule or several. This
    runs the user's code: call it in a process that may die.

    Raises:
        BadInput: the function fails or returns no schedule.
    """
    load_intrinsics_for(target)
    found: dict[str, Sketch] = {}
    for seed in range(1, RUNS_OF_A_SCHEDULE_FUNCTION + 1):
        schedule = tvm.s_tir.Schedule(module, seed=seed)
        try:
            with tvm_target(target):
                returned = schedule_function(schedule)
        except Exception as error:
            raise BadInput("space", f"the schedule function failed: {error!r}.", "Correct the function.") from error
        for result in _schedules(returned, schedule):
            sketch = steps_of(trace_of(result)).sketch
            found.setdefault(sketch.text, sketch)
    return tuple(found.values())


def postprocessors(module: Any, target: Target, abi: Abi) -> tuple[Any, ...]:
    """TVM's postprocessors for the target. With a stable ABI none of them may change the layout of arguments."""
    return tuple(_context(module, target, abi).space_generator.postprocs)


def _context(module: Any, target: Target, abi: Abi) -> Any:
    """A TVM context whose space generator has the rules for the target.

    For processors the plain rules are named explicitly: those that TVM picks for x86 with VNNI and for ARM tile int8
    functions for an intrinsic that does not match or that the code generator rejects. The same holds for CUDA, where
    kernels from the tensor core rules do not compile.
    """
    for_tvm = tvm_target(target)
    name = _named_rules(for_tvm)
    if name is None:
        load_intrinsics_for(target)
    else:
        leave_intrinsics_out()
    rules = _rules(name)
    steps: Any = list(meta_schedule.postproc.Postproc.create(name)) if name else None
    if steps is None:
        steps = list(_tune_context(module, for_tvm, rules, "from-target").space_generator.postprocs)
    if abi == "stable":
        steps = [step for step in steps if not isinstance(step, meta_schedule.postproc.RewriteLayout)]
    return _tune_context(module, for_tvm, rules, steps)


def _rules(name: str | None) -> Any:
    """The rules with a name, with additional ones for CPUs; without a name, TVM's choice for the target."""
    if name is None:
        return "from-target"
    rules = list(meta_schedule.schedule_rule.ScheduleRule.create(name))
    if name != "llvm":
        return rules
    rules = [ElementwiseInlining(), *map(_without_repeating_bits, rules)]
    rules[_before_tiling(rules) : _before_tiling(rules)] = [StreamedReduction(), TiledMovement()]
    return rules


def _without_repeating_bits(rule: Any) -> Any:
    """Inlining that also leaves blocks alone that compute ``exp`` by arithmetic and bits, as TVM leaves ``exp`` alone.

    Without that, each reader of the block would compute it again.
    """
    if not isinstance(rule, meta_schedule.schedule_rule.AutoInline):
        return rule
    return meta_schedule.schedule_rule.AutoInline(
        into_producer=False,
        into_consumer=True,
        inline_const_tensor=True,
        disallow_if_then_else=True,
        require_injective=True,
        require_ordered=True,
        disallow_op=list(ELEMENTARY_CALLS),
    )


def _before_tiling(rules: Sequence[Any]) -> int:
    tiles = meta_schedule.schedule_rule.MultiLevelTiling
    return next(number for number, rule in enumerate(rules) if isinstance(rule, tiles))


def _named_rules(for_tvm: Any) -> str | None:
    kind = str(for_tvm.kind.name)
    return kind if kind in {"llvm", "cuda"} else None


def _tune_context(module: Any, for_tvm: Any, rules: Any, steps: Any) -> Any:
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules=rules, postprocs=steps, mutator_probs={})
    return meta_schedule.TuneContext(
        mod=module, target=for_tvm, space_generator=generator, task_name="space", rand_state=1, num_threads=1
    )


def _schedules(returned: Any, given: Any) -> Sequence[Any]:
    if returned is None:
        return [given]
    several = list(returned) if isinstance(returned, list | tuple) else [returned]
    if not several or not all(isinstance(one, tvm.s_tir.Schedule) for one in several):
        raise BadInput("space", "the schedule function returns no schedule.", "Return nothing, or the schedule.")
    return several


def _filled(module: Any, sketch: Sketch) -> list[Trace]:
    """Return a trace of the sketch with sampled decisions, or None if it does not fit the module."""
    for seed in range(1, 5):
        try:
            schedule = judged_schedule(module, json.loads(sketch.text), callees=named_callees(module), seed=seed)
            return [trace_of(schedule)]
        except TVM_ERRORS:
            continue
    return []
