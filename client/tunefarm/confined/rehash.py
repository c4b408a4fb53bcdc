"""The child that computes a stored workload's structural hash with the installed TVM."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_search.tvm.serialization import load_json

ENTRY: Final = "tunefarm.confined.rehash:main"


class StoredModule(Frozen):
    """A workload's module, written by any version of TVM."""

    module_json: str = Field(repr=False)


class StructuralHash(Frozen):
    """TVM's hash as decimal text, and the version that computed it."""

    structural_hash: str
    tvm_version: str


def hashed(stored: StoredModule) -> StructuralHash:
    """Load and hash the module.

    Raises:
        BadInput: the installed TVM cannot load it.
    """
    import tvm

    from tunefarm_search.records.asked_forms import hash_of
    from tunefarm_search.tvm.errors import TVM_ERRORS, last_line

    try:
        structural_hash = hash_of(load_json(stored.module_json))
    except TVM_ERRORS as error:
        fix = "Tune its function again."
        raise BadInput("workload", f"TVM {tvm.__version__} cannot load it: {last_line(error)}.", fix) from error
    return StructuralHash(structural_hash=structural_hash, tvm_version=str(tvm.__version__))


main = answering(StoredModule, hashed)
