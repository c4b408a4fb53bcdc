"""What the library of a target may do."""

import json
from collections.abc import Collection
from typing import Final

from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.kernel_library.rules import MACHINES, LibraryRules

_PROCESSORS: Final = frozenset({"llvm", "c"})
_ARCHITECTURES: Final = frozenset(machine.name for machine in MACHINES.values())


def rules_of(target: str, callees: Collection[str] = ()) -> LibraryRules:
    """The rules for a library that was made for ``target``, the JSON text of one that this process chose itself.

    A text that came with the library must not decide: it could name a graphics processor, whose libraries may do more.
    ``callees`` are functions outside of it that it may call.
    """
    attributes = json.loads(target)
    if attributes.get("kind") not in _PROCESSORS:
        return LibraryRules(callees=tuple(callees), may_hold_device_code=True)
    named = architecture_named(str(attributes.get("mtriple", "")).partition("-")[0])
    # TVM's own triple for this host need not be the host's: without one, any processor will do.
    return LibraryRules(architecture=named if named in _ARCHITECTURES else "", callees=tuple(callees))
