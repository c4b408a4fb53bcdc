"""The cases that the package onnx has for each operator compile to their results, or are refused.

``refused_node_cases.txt`` lists those that are refused: operators of training, images and texts, results whose size
data decide, empty tensors, and what has no conversion. Where a case gives sizes and axes as inputs of the model, they
are made constants if it is refused otherwise, since models have them so.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case import node as node_cases

from tests.client.frontend.untuned import Array, by_tvm
from tests.client.onnx.graphs import saved
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]
REFUSED: Final = frozenset((Path(__file__).parent / "refused_node_cases.txt").read_text().split())
WITHOUT_KERNEL: Final = frozenset({"test_top_k_uint64"})
"""TVM cannot build its operator for the type."""
EXPANDED: Final = "_expanded"
"""Ends the names of cases whose operator is replaced by others that have cases of their own."""
SMALL: Final = 16
TOLERANCES: Final = MappingProxyType({2: (8e-3, 4e-3), 4: (1e-3, 1e-5), 8: (1e-3, 1e-5)})
"""Relative and absolute ones, by the width of a float."""
Case = Any


@cache
def cases() -> Mapping[str, Sequence[Case]]:
    """The cases of tensors of numbers, by the operator of their first node."""
    found: dict[str, list[Case]] = {}
    with warnings.catch_warnings(action="ignore"):  # of numpy, since some overflow
        collected = node_cases.collect_testcases(None)
    for case in collected:
        arrays = [each for given in case.data_sets[0] for each in given]
        is_of_numbers = all(
            isinstance(each, np.ndarray | np.generic) and each.dtype.kind not in "OSU" for each in arrays
        )
        if is_of_numbers and case.name not in WITHOUT_KERNEL and not case.name.endswith(EXPANDED):
            found.setdefault(case.model.graph.node[0].op_type, []).append(case)
    return found


@pytest.mark.parametrize("operator", sorted(cases()))
def test_cases_of_an_operator(operator: str, tmp_path: Path) -> None:
    refused = set()
    for case in cases()[operator]:
        inputs, expected = (list(map(np.asarray, each)) for each in case.data_sets[0])
        try:
            model, given = imported(case.model, inputs, tmp_path)
        except BadInput:
            refused.add(case.name)
            continue
        for mine, theirs in zip(by_tvm(model, given), expected, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), case.name
            require_close(mine, theirs, inputs, case.name)
    assert refused == REFUSED & {case.name for case in cases()[operator]}


def imported(model: Any, inputs: Sequence[Array], folder: Path) -> tuple[RelaxModel, list[Array]]:
    """The model, and the inputs that it still has.

    Raises:
        BadInput: it is refused, even with all its small inputs but the first as constants.
    """
    for kinds in ("", "iub", "iubfV"):
        chosen = [number > 0 and each.size <= SMALL and each.dtype.kind in kinds for number, each in enumerate(inputs)]
        fixed = onnx.ModelProto.FromString(model.SerializeToString())
        del fixed.graph.input[:]
        given = []
        for value, array, is_constant in zip(model.graph.input, inputs, chosen, strict=True):
            if is_constant:
                fixed.graph.initializer.append(numpy_helper.from_array(array, value.name))
            else:
                fixed.graph.input.append(value)
                given.append((value.name, array))
        try:
            return read_onnx(saved(fixed, folder), {name: array.shape for name, array in given}), [a for _, a in given]
        except BadInput as error:
            refusal = error
    raise refusal


def require_close(mine: Array, theirs: Array, inputs: Sequence[Array], name: str) -> None:
    floats = [each.dtype.itemsize for each in (*inputs, theirs) if each.dtype.kind not in "iub"]
    relative, absolute = TOLERANCES[min(floats, default=4)]
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), relative, absolute, equal_nan=True, err_msg=name)
