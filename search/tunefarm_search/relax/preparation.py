"""From a frontend's Relax module to one whose work is done by TIR functions that can be scheduled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_search.relax.attention.few_rows import with_products_of_few_rows
from tunefarm_search.relax.attention.fused_attention import with_fused_attention
from tunefarm_search.relax.attention.safe_softmax import with_plain_softmax
from tunefarm_search.relax.attention.softmax_rows import (
    LOG_SOFTMAX,
    SOFTMAX,
    legalize_log_softmax,
    legalize_softmax,
)
from tunefarm_search.relax.attention.visible_keys import with_attention_of_visible_keys
from tunefarm_search.relax.channels_last.convolutions import with_channels_last
from tunefarm_search.relax.channels_last.padded import with_padded_channels
from tunefarm_search.relax.constants import constant_of, fold_constants
from tunefarm_search.relax.elementary.replacement import without_library_calls
from tunefarm_search.relax.expressions import MATMUL
from tunefarm_search.relax.function_names import with_short_names
from tunefarm_search.relax.identities import with_views, without_identities
from tunefarm_search.relax.integer.operators import QUANTIZE, legalize_quantize
from tunefarm_search.relax.integer.rewriting import with_integer_products
from tunefarm_search.relax.loops.branches import with_branch_functions
from tunefarm_search.relax.operators.batch_norm import fold_batch_norms
from tunefarm_search.relax.operators.clipped_indices import with_clipped_indices
from tunefarm_search.relax.operators.constant_indices import with_slices
from tunefarm_search.relax.operators.division import DIVIDE, legalize_divide
from tunefarm_search.relax.operators.gelu import with_gelu
from tunefarm_search.relax.operators.norms import with_norms
from tunefarm_search.relax.operators.ordering import with_own_sorts
from tunefarm_search.relax.operators.padded_convolutions import with_padding_in_convolutions
from tunefarm_search.relax.operators.separate_resizing import RESIZE, legalize_resize
from tunefarm_search.relax.operators.wide_sums import with_wide_sums
from tunefarm_search.relax.products.dilated import with_plain_convolutions
from tunefarm_search.relax.products.legalization import legalize_product
from tunefarm_search.relax.products.narrow_constants import NarrowConstants, with_narrow_constants
from tunefarm_search.relax.products.tiled_results import with_tiled_results
from tunefarm_search.relax.quantized_values import CODES
from tunefarm_search.relax.scopes import well_scoped
from tunefarm_search.relax.slices import slice_splits, split_slices
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.target import CPU_KINDS, converted_halves, has_few_vector_registers, tvm_target
from tunefarm_search.tvm.tensor_intrinsics.tile_elements import BFLOAT16, tile_elements_of

Weights = Mapping[str, Sequence[npt.NDArray[np.generic]]]
_NUM_INPUT = "num_input"
_LEGALIZED: Final = {
    SOFTMAX: legalize_softmax,
    LOG_SOFTMAX: legalize_log_softmax,
    RESIZE: legalize_resize,
    QUANTIZE: legalize_quantize,
    DIVIDE: legalize_divide,
}
"""Operators that TVM has functions for that are slower on a CPU, or do not compile."""


@dataclass(frozen=True)
class PreparedModel:
    """A Relax module whose operators are calls of TIR functions, with its weights as constants.

    Attributes:
        module: TVM's ``IRModule``. Relax functions call TIR functions by ``call_tir`` and pass weights as arguments.
        entries: the functions that users call, by name.
        target: what the TIR functions are scheduled and compiled for.
        stages: what the module was before.
    """

    module: Any
    entries: tuple[ModelEntry, ...]
    target: Target
    stages: "PreparationStages"


@dataclass(frozen=True)
class PreparationStages:
    """What a prepared module was made of. Names of variables in entries relate the stages.

    Attributes:
        operators: the last module of Relax operators.
        legalized: its operators as calls of TIR functions; results have the names that they have in ``operators``.
        grouped: the calls in groups to be fused; results have the names that they have in the prepared module.
    """

    operators: Any
    legalized: Any
    grouped: Any


def prepare(module: Any, weights: Weights, target: Target) -> PreparedModel:
    """Bind weights, decompose and legalize operators, fold constants and fuse.

    Folds what NumPy does not know with kernels that it builds and runs: call it in a process that does not fork later.

    Args:
        module: a Relax ``IRModule``, as in ``RelaxModel``. Functions of TIR in it are kept, and fused with others.
        weights: the contents of the parameters after the first ``num_input``, by the name of the entry function.
        target: what is scheduled and compiled for; some operators are legalized differently for it.

    Raises:
        BadInput: there is no entry function, weights do not match, shapes are dynamic, or TVM cannot lower an operator.
    """
    names = _entry_names(module)
    bound = _bound(module, names, weights)
    entries = tuple(_entry(name, bound[name]) for name in names)
    try:
        with tvm_target(target):
            prepared, stages = _lowered(bound, names, target)
    except TVM_ERRORS as error:
        problem = f"TVM cannot lower it: {last_line(error)}"
        raise BadInput("model", problem, "Replace the operator that it names by others.") from error
    return PreparedModel(prepared, entries, target, stages)


def with_constants(module: Any, weights: Weights) -> Any:
    """A Relax module with constants in place of the parameters that are weights, as ``prepare`` takes them.

    Raises:
        BadInput: there is no entry function, or weights do not match.
    """
    return _bound(module, _entry_names(module), weights)


def _lowered(module: Any, names: Sequence[str], target: Target) -> tuple[Any, PreparationStages]:
    passes, keep = relax.transform, relax.transform.DeadCodeElimination(list(names))
    module = with_branch_functions(_run(module, passes.LambdaLift(), passes.Normalize()))
    module = _run(module, passes.ConvertToDataflow(1), passes.CanonicalizeBindings())
    module = _run(with_wide_sums(module, widens_operands=target.kind == "llvm"), passes.CanonicalizeBindings())
    narrow = NarrowConstants()
    if target.kind == "llvm":
        # Integers of 4 bits are parts of bytes at first.
        module = fold_constants(module, types=CODES | {"bool"})
        module = with_narrow_constants(module, converted_halves(target), narrow)
    # Before it is evaluated, the repetition of a matrix can still be told from several matrices.
    module = _run(fold_constants(without_identities(module)), passes.CanonicalizeBindings())
    module = fold_batch_norms(with_norms(with_gelu(module)))
    module = _run(module, passes.DecomposeOpsForInference(), passes.CanonicalizeBindings(), keep)
    module = with_padding_in_convolutions(with_clipped_indices(with_slices(fold_constants(module))))
    module = with_integer_products(split_slices(with_plain_softmax(module)), target)
    if target.kind == "llvm":
        module = with_padded_channels(with_channels_last(module), target)
    module = _run(with_views(module), passes.CanonicalizeBindings(), keep)
    operators = with_unique_names(module, names, "operator")
    dispatch = (relax.backend.DispatchSampling(), relax.backend.DispatchSortScan())
    given = {str(variable.name_hint) for variable in operators.functions}
    tiled, customized = _run(slice_splits(operators), keep), {}
    if target.kind == "llvm":
        few = has_few_vector_registers(target)
        rows = with_products_of_few_rows(with_attention_of_visible_keys(tiled))
        plain = with_plain_convolutions(with_fused_attention(rows))
        has_unit = BFLOAT16 in tile_elements_of(target)
        tiled = with_tiled_results(plain, narrow, has_few_registers=few, multiplies_bfloat16=has_unit)
        tiled = _run(tiled, keep)
        customized = {**_LEGALIZED, MATMUL: partial(legalize_product, few, narrow)}
    if target.kind in CPU_KINDS:
        tiled = with_own_sorts(tiled)
    legalized = _run(tiled, *dispatch, passes.LegalizeOps(customized))
    if target.kind == "llvm":
        legalized = without_library_calls(legalized, kept=given)
    legalized = _run(legalized, passes.AnnotateTIROpPattern(), passes.FoldConstant())
    grouped = with_unique_names(_run(legalized, passes.FuseOps()), names, "group")
    fused = _run(grouped, passes.FuseTIR(), passes.CanonicalizeBindings(), keep)
    return with_short_names(fused), PreparationStages(operators, legalized, grouped)


def _run(module: Any, *passes: Any) -> Any:
    return tvm.transform.Sequential(list(passes))(well_scoped(module))


def _entry_names(module: Any) -> tuple[str, ...]:
    """The public Relax functions of a module."""
    if not isinstance(module, tvm.IRModule):
        raise BadInput("model", f"is a {type(module).__name__}.", "Give an IRModule with Relax functions.")
    names = [
        str(variable.name_hint)
        for variable, function in module.functions.items()
        if isinstance(function, relax.Function) and "global_symbol" in (function.attrs or {})
    ]
    if not names:
        raise BadInput("model", "has no Relax function to call.", "Give a module with one, such as main.")
    return tuple(sorted(names))


def _bound(module: Any, names: Sequence[str], weights: Weights) -> Any:
    """``module`` with constants in place of the parameters that are weights."""
    unknown = sorted(set(weights) - set(names))
    if unknown:
        raise BadInput("model", f"it has weights, but no function, of the name {unknown[0]!r}.", "Remove them.")
    bound = tvm.IRModule(module.functions, attrs=module.attrs)
    known: dict[int, Any] = {}  # entries may share arrays
    for name in names:
        function = bound[name]
        inputs = int((function.attrs or {}).get(_NUM_INPUT, len(function.params)))
        parameters, given = list(function.params)[inputs:], list(weights.get(name, ()))
        if len(parameters) != len(given):
            problem = f"{name} has {len(parameters)} parameters that are weights, and {len(given)} weights are given."
            raise BadInput("model", problem, "Give one array for each.")
        constants = {
            parameter: _weight(name, parameter, array, known)
            for parameter, array in zip(parameters, given, strict=True)
        }
        if constants:
            # FFI passes variables as keys; names need not be unique.
            bound = relax.transform.BindParams(name, constants)(bound)
    return bound


def _weight(entry: str, parameter: Any, array: npt.NDArray[np.generic], known: dict[int, Any]) -> Any:
    expected = _tensor(entry, parameter.name, parameter.ty, is_output=False)
    if tuple(array.shape) != expected.shape or str(array.dtype) != expected.dtype:
        problem = f"the weight {expected.name} of {entry} is {array.dtype}{list(array.shape)}"
        fix = f"Give {expected.dtype}{list(expected.shape)}."
        raise BadInput("model", f"{problem}.", fix)
    if id(array) not in known:
        known[id(array)] = constant_of(array)
    return known[id(array)]


def _entry(name: str, function: Any) -> ModelEntry:
    inputs = tuple(_tensor(name, parameter.name, parameter.ty, is_output=False) for parameter in function.params)
    result = function.ret_ty
    leaves = tuple(_leaves(result))
    outputs = tuple(_tensor(name, f"output{at}", leaf, is_output=True) for at, leaf in enumerate(leaves))
    return ModelEntry(name=name, inputs=inputs, outputs=outputs, is_tuple=isinstance(result, relax.TupleType))


def _leaves(kind: Any) -> list[Any]:
    if isinstance(kind, relax.TupleType):
        return [leaf for field in kind.fields for leaf in _leaves(field)]
    return [kind]


def _tensor(entry: str, name: str, kind: Any, *, is_output: bool) -> TensorArgument:
    where = f"{'the result' if is_output else f'the parameter {name}'} of {entry}"
    shape = getattr(kind, "shape", None)
    if shape is None or not hasattr(kind, "dtype"):
        raise BadInput("model", f"{where} is not a tensor of known shape.", "Give each tensor a shape.")
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
        raise BadInput("model", f"{where} has the dynamic shape {list(shape)}.", "Fix its sizes.")
    extents = tuple(int(extent) for extent in shape)
    return TensorArgument(name=name, shape=extents, dtype=str(kind.dtype), is_output=is_output)


def with_unique_names(module: Any, entries: Sequence[str], prefix: str) -> Any:
    """The module, in which the variables of all bindings of ``entries`` are called ``prefix`` and a number."""
    named = tvm.IRModule(module.functions, attrs=module.attrs)
    naming = _Naming(prefix)
    for entry in entries:
        naming.kept.update(named[entry].params)
        named.update_func(named.get_global_var(entry), naming.visit_expr(named[entry]))
    return named


@mutator
class _Naming(PyExprMutator):  # type: ignore[misc]
    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._count = 0
        self.kept: set[Any] = set()

    def visit_var_def_(self, variable: Any) -> Any:
        return self._named(relax.Var, variable)

    def visit_dataflow_var_def_(self, variable: Any) -> Any:
        return self._named(relax.DataflowVar, variable)

    def _named(self, kind: Any, variable: Any) -> Any:
        if variable in self.kept:
            return variable
        named = kind(f"{self._prefix}{self._count}", variable.ty)
        self._count += 1
        self.set_var_remap(variable, named)
        return named
