"""The child that reports facts about TVM and this machine."""

from typing import Final

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.frozen import Frozen

ENTRY: Final = "tunefarm.confined.tvm_facts:main"


class NoQuestion(Frozen):
    """A request without content."""


class TvmFacts(Frozen):
    """Versions, and LLVM's name of this processor."""

    tvm_version: str
    llvm_version: str
    host_cpu: str


def facts() -> TvmFacts:
    """Query TVM."""
    import tvm
    from tvm.target import codegen

    from tunefarm_search.tvm.target import host_cpu

    return TvmFacts(
        tvm_version=str(tvm.__version__),
        llvm_version=str(codegen.llvm_version_major()),
        host_cpu=host_cpu(),
    )


main = answering(NoQuestion, lambda _: facts())
