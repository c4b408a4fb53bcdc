"""The target of every tuner in a comparison."""

import tvm


def host_target(cores: int) -> dict[str, object]:
    """This host's processor with all its instructions, on ``cores`` threads."""
    return {"kind": "llvm", "num-cores": cores, "mcpu": str(tvm.target.codegen.llvm_get_system_cpu())}
