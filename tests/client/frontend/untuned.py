"""Runs an imported model in TVM's virtual machine, without tuning."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from tunefarm.frontend.relax_model import RelaxModel
from tunefarm_search.relax.loops.branches import with_branch_functions

Array = npt.NDArray[np.generic]


def by_tvm(model: RelaxModel, inputs: Sequence[Array]) -> list[Array]:
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with target:
        passes = [relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps()]
        # TVM plans the memory of inline branches as if both ran, and such programs end the process.
        module = tvm.transform.Sequential(passes)(with_branch_functions(model.module))
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    arguments = [*inputs, *model.weights["main"]]
    result = machine["main"](*(tvm.runtime.tensor(np.array(array, order="C")) for array in arguments))
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [each.numpy() for each in result]
