"""Runs a TFLite file in LiteRT, and as Relax in TVM's virtual machine."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import tvm
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tvm import relax

from tunefarm.frontend.relax_model import RelaxModel

Arrays = list[npt.NDArray[np.generic]]


def by_litert(path: Path, inputs: Arrays) -> Arrays:
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def by_tvm(model: RelaxModel, inputs: Arrays) -> Arrays:
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with target:
        passes = [relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps()]
        module = tvm.transform.Sequential(passes)(model.module)
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    arguments = [*inputs, *model.weights["main"]]
    result = machine["main"](*(tvm.runtime.tensor(np.array(array, order="C")) for array in arguments))
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [each.numpy() for each in result]
