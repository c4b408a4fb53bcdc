"""TVM's target for a device, with the processor beside it where the device needs one."""

import json
from typing import Any

import tvm

from tunefarm_workers.builder.scheduled_module import target_of
from tunefarm_workers.session.device.session_messages import Toolchain

_PROCESSORS = {"llvm", "c"}


def device_target(canonical: str, toolchain: Toolchain) -> Any:
    """The target that code for the device is generated for."""
    attributes = json.loads(canonical)
    if attributes["kind"] in _PROCESSORS or "host" in attributes:
        return target_of(canonical)
    host = toolchain.host_target or '{"kind":"llvm","num-cores":1}'
    return tvm.target.Target(target_of(canonical), host=target_of(host))
