"""The check that this machine can measure a target, from the target's text alone: nothing was read or started yet."""

import json
import platform
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.tuning.target_preset import preset_attributes

_LONGEST: Final = 1000
_NEVER_MEASURED: Final = "wasm32"


def require_measured_here(target: str, module: str = "MODULE") -> None:
    """Refuse a target for processors of another architecture than this machine's; others are checked by TVM later.

    Args:
        target: as typed.
        module: as typed, for the command that would serve.

    Raises:
        BadInput: names the commands that measure on such a processor.
    """
    wanted = _architecture(target)
    here = architecture_named(platform.machine())
    if wanted in ("", here):
        return
    problem = f"it is for {wanted}, and this host, which would measure, is {here}."
    if wanted == _NEVER_MEASURED:
        fix = (
            "No worker measures WebAssembly: tune for a processor that is close to the one that runs it, and compile "
            "the result with tunefarm bundle build JOB --form wasm --output DIR."
        )
        raise BadInput("target", problem, fix)
    command = f"tunefarm submit {shlex.quote(module[:_LONGEST])} --target {shlex.quote(target[:_LONGEST].strip())}"
    fix = (
        f"Submit it to a service with such a device: {command}. A machine with {wanted} joins the service with "
        "tunefarm worker start, and a board by way of a gateway, with tunefarm worker start --kind rpc. To tune for "
        "this host, omit --target."
    )
    raise BadInput("target", problem, fix)


def _architecture(target: str) -> str:
    """The architecture that a text names; empty if it names none."""
    attributes: object = preset_attributes(target.strip())
    if attributes is None and target.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):  # the intake says what is wrong with it
            attributes = json.loads(target)
    if not isinstance(attributes, Mapping) or attributes.get("kind") != "llvm":
        return ""
    return architecture_named(str(attributes.get("mtriple", "")).partition("-")[0])
