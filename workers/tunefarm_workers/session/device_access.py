"""How a farm reaches its device, and how it treats it."""

from collections.abc import Callable
from dataclasses import dataclass

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import MeasureTask


@dataclass(frozen=True)
class DeviceAccess:
    """Everything in which one kind of device differs from another.

    Attributes:
        name: what to call the device in messages.
        entry: the child that holds the device, as "package.module:function".
        connection: what that child needs to know to reach it, as JSON.
        target_kinds: kinds of targets whose code runs on it.
        abis: in which forms functions may be compiled for it.
        reference_target: what the reference kernels are compiled for, as canonical JSON.
        num_cores: threads that its kernels take at most; 0 for a device that has no such notion.
        confinement: of the child that holds the device.
        limits: of that child.
        reach_s: how long reaching it may take, inputs included.
        run_allowance_s: what sending a library and fetching outputs may take on top of a kernel's own limit.
        session_candidates: after so many candidates the child is replaced by a fresh one.
        session_s: after so long the device itself would end the session; None where it does not.
        linger_s: how long a child that is let go in the middle of a call may take to end by itself; 0 ends it at once.
        flush_bytes: what is written between calls whose time with cold caches is wanted.
        holds_builds_still: whether this host's other work stands still while the clock runs.
        further_check: raises ``BadInput`` for tasks that this device refuses for reasons of its own.
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
    session_s: float | None = None
    linger_s: float = 0.0
    flush_bytes: int = 64 << 20
    holds_builds_still: bool = False
    further_check: Callable[[MeasureTask], None] = lambda _: None

    def check(self, task: MeasureTask, kind: str) -> None:
        """Refuse what cannot be measured on this device. ``kind`` is the kind of the task's target.

        Raises:
            BadInput: for another kind of target, a form it does not take, or more threads than it has.
        """
        if kind not in self.target_kinds:
            known = " or ".join(self.target_kinds)
            raise BadInput("target", f"{self.name} runs no code for {kind!r}.", f"Give a target of the kind {known}.")
        if task.abi not in self.abis:
            fix = f"Use --abi {' or '.join(self.abis)}."
            raise BadInput("abi", f"{self.name} takes no functions with the {task.abi} ABI.", fix)
        if self.num_cores and task.num_cores > self.num_cores:
            problem = f"num-cores is {task.num_cores} and {self.name} has {self.num_cores}."
            raise BadInput("target", problem, f"Give at most {self.num_cores}.")
        if task.protocol_id not in PROTOCOLS:
            raise BadInput("protocol_id", f"is {task.protocol_id!r}.", f"Give one of {', '.join(PROTOCOLS)}.")
        self.further_check(task)
