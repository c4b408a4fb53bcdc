"""How a farm connects to a kind of device, and that device's limits."""

from collections.abc import Callable
from dataclasses import dataclass

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import MeasureTask


@dataclass(frozen=True)
class DeviceAccess:
    """The differences between kinds of devices.

    Attributes:
        name: of the device in messages.
        entry: the child that holds the device, as "package.module:function".
        connection: that child's parameters to connect to the device, as JSON.
        target_kinds: kinds of targets whose code runs on it.
        abis: ABIs that functions may be compiled with.
        reference_target: target of the reference kernels, as canonical JSON.
        num_cores: maximum threads of its kernels; 0 for a device without that notion.
        confinement: of the child that holds the device.
        limits: of that child.
        reach_s: time limit for connecting, inputs included.
        run_allowance_s: time for sending a library and fetching outputs, on top of a kernel's limit.
        session_candidates: maximum candidates per child.
        parked_sessions: children of other tasks that stay connected while a candidate runs; 0 for a device that
            accepts one connection.
        session_s: when the device ends a session by itself; None if it does not.
        linger_s: how long a child that is abandoned within a call may take to end by itself; 0 kills it at once.
        flush_bytes: bytes written between calls that are timed with cold caches.
        holds_builds_still: whether this host's other work is held still while kernels are timed.
        further_check: raises ``BadInput`` for tasks that this device refuses for other reasons.
    """

    name: str
    entry: str
    connection: str
    target_kinds: tuple[str, ...]
    reference_target: str
    num_cores: int
    confinement: Confinement
    limits: Limits
    abis: tuple[str, ...] = ("stable", "packed")
    reach_s: float = 30.0
    run_allowance_s: float = 5.0
    session_candidates: int = 32
    parked_sessions: int = 0
    session_s: float | None = None
    linger_s: float = 0.0
    flush_bytes: int = 64 << 20
    holds_builds_still: bool = False
    further_check: Callable[[MeasureTask], None] = lambda _: None

    def check(self, task: MeasureTask, kind: str) -> None:
        """Raise ``BadInput`` if ``task``, for a target of ``kind``, cannot be measured on this device."""
        if kind not in self.target_kinds:
            known = " or ".join(self.target_kinds)
            raise BadInput("target", f"{self.name} runs no code for {kind!r}.", f"Give a target of the kind {known}.")
        if task.abi not in self.abis:
            fix = f"Use --abi {' or '.join(self.abis)}."
            raise BadInput("abi", f"{self.name} does not support the {task.abi} ABI.", fix)
        if self.num_cores and task.num_cores > self.num_cores:
            problem = f"num-cores is {task.num_cores} and {self.name} has {self.num_cores}."
            raise BadInput("target", problem, f"Give at most {self.num_cores}.")
        if task.protocol_id not in PROTOCOLS:
            raise BadInput("protocol_id", f"is {task.protocol_id!r}.", f"Give one of {', '.join(PROTOCOLS)}.")
        self.further_check(task)
