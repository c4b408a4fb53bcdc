"""The rules for the library of a target."""

import json
from collections.abc import Collection
from typing import Final

from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.kernel_library.rules import MACHINES, LibraryRules

_PROCESSORS: Final = frozenset({"llvm", "c"})
_ARCHITECTURES: Final = frozenset(machine.name for machine in MACHINES.values())


def rules_of(target: str, callees: Collection[str] = ()) -> LibraryRules:
    """The rules for a library compiled for ``target``, the JSON text of a target that this process chose itself.

    Never pass a text that came with the library: it could name a GPU, whose libraries are permitted more.
    ``callees`` are functions outside of the library that it may call.
    """
    attributes = json.loads(target)
    if attributes.get("kind") not in _PROCESSORS:
        return LibraryRules(callees=tuple(callees), may_hold_device_code=True)
    named = architecture_named(str(attributes.get("mtriple", "")).partition("-")[0])
    # TVM's default triple need not match this host: without an explicit triple, accept any processor.
    return LibraryRules(architecture=named if named in _ARCHITECTURES else "", callees=tuple(callees))
