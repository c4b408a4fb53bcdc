from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.models

pytest.importorskip("onnx")

from tests.models.library.operator_cases import CASES  # noqa: E402
from tests.models.library.regions import Case, bindings, by_library, by_tvm, libraries_for, open_region  # noqa: E402
from tunefarm_search.relax.onnx_graph import onnx_model, unsupported  # noqa: E402


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_libraries_compute_what_tvm_computes(case: Case, tmp_path: Path) -> None:
    module = case.function()
    assert [reason for each in bindings(module) if (reason := unsupported(module, each))] == []
    region = onnx_model(module["main"], None)
    arrays = case.arrays()
    expected = by_tvm(module, arrays)
    for library in libraries_for(case.name):
        found = by_library(open_region(library, region, tmp_path), arrays, region)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            require_near(one, other, case)


def require_near(
    found: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]",
    expected: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]",
    case: Case,
) -> None:
    if found.dtype.kind != "f":
        assert np.abs(found.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= case.steps
        return
    tolerance = max(case.tolerance, 2e-3 if found.dtype == np.float16 else 0)
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(expected).max()))
    )


def test_case_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
