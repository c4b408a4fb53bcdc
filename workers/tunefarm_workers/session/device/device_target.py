"""TVM's target for a device, with a host processor if the device needs one."""

import json
from typing import Any

import tvm

from tunefarm_workers.builder.scheduled_module import target_of
from tunefarm_workers.session.device.session_messages import Toolchain

_PROCESSORS = {"llvm", "c"}


def device_target(canonical: str, toolchain: Toolchain) -> Any:
    """The target for code generation, from its canonical JSON."""
    attributes = json.loads(canonical)
    if attributes["kind"] in _PROCESSORS or "host" in attributes:
        return target_of(canonical)
    host = toolchain.host_target or '{"kind":"llvm","num-cores":1}'
    return tvm.target.Target(target_of(canonical), host=target_of(host))
