"""Runs an imported model in TVM's virtual machine, without tuning."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from tunefarm.frontend.relax_model import RelaxModel

Array = npt.NDArray[np.generic]


def by_tvm(model: RelaxModel, inputs: Sequence[Array]) -> list[Array]:
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with target:
        passes = [relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps()]
        module = tvm.transform.Sequential(passes)(model.module)
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    arguments = [*inputs, *model.weights["main"]]
    result = machine["main"](*(tvm.runtime.tensor(np.array(array, order="C")) for array in arguments))
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [each.numpy() for each in result]
