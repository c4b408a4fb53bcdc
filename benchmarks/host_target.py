"""The target of every tuner in a comparison."""

from tunefarm_search.tvm.target import host_cpu


def host_target(cores: int) -> dict[str, object]:
    """This host's processor with all its instructions, on ``cores`` threads."""
    return {"kind": "llvm", "num-cores": cores, "mcpu": host_cpu()}
