"""The distinct TIR functions of torch modules, as a Relax model is lowered for compilation."""

from collections.abc import Iterator
from pathlib import Path

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from benchmarks.models.model_blocks import model_blocks


def write_corpus(folder: Path) -> None:
    """Write each function as a file of TVM's JSON, named after its block and its own name."""
    seen: set[int] = set()
    for name, module in lowered_blocks():
        for variable, function in module.functions.items():
            if not isinstance(function, tvm.tirx.PrimFunc):
                continue
            one = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
            digest = tvm_ffi.structural_hash(one)
            if digest not in seen:
                seen.add(digest)
                (folder / f"{name}.{variable.name_hint}.json").write_text(str(tvm.ir.save_json(one)))


def lowered_blocks() -> Iterator[tuple[str, tvm.IRModule]]:
    """The blocks as Relax modules with fused TIR functions, by name."""
    lower = tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.FoldBatchnormToConv2D(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    for name, block, inputs in model_blocks():
        with torch.no_grad():
            exported = torch.export.export(block.eval(), inputs)
        yield name, lower(from_exported_program(exported))
