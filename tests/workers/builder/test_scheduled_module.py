from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tunefarm_workers.builder.scheduled_module import build_in_place, build_scheduled

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})


@pytest.fixture(scope="module")
def doubling() -> tvm.IRModule:
    given = te.placeholder((4,), name="A")
    function = te.create_prim_func([given, te.compute((4,), lambda i: given[i] * 2.0, name="B")])
    return tvm.IRModule({"main": function})


@pytest.mark.parametrize("build", [build_scheduled, build_in_place])
def test_both_builds_compute_the_same(build: Callable[..., Any], doubling: tvm.IRModule) -> None:
    out = tvm.runtime.tensor(np.zeros(4, "float32"))
    build(doubling, TARGET)["main"](tvm.runtime.tensor(np.arange(4, dtype="float32")), out)
    assert out.numpy().tolist() == [0.0, 2.0, 4.0, 6.0]


def test_only_shipped_build_checks_shapes(
    doubling: tvm.IRModule,
) -> None:
    longer = tvm.runtime.tensor(np.arange(5, dtype="float32"))
    out = tvm.runtime.tensor(np.zeros(4, "float32"))
    with pytest.raises(ValueError, match="shape"):
        build_scheduled(doubling, TARGET)["main"](longer, out)
    build_in_place(doubling, TARGET)["main"](longer, out)
    assert out.numpy().tolist() == [0.0, 2.0, 4.0, 6.0]
