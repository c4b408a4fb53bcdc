"""Hostile candidates, installed inside a fork server: a trace that names an attack runs it in its child.

The child that would run a hostile module's kernel does what that kernel could do, at the same stage and
under the same confinement.
"""

import ctypes
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

import tunefarm_workers.child.candidate as candidate
import tunefarm_workers.child.comparison_child as comparison_child
import tunefarm_workers.child.kernel as kernel
import tunefarm_workers.child.link_child as link_child
import tunefarm_workers.child.reference as reference
from tests.sandbox.attacks import tried
from tunefarm_workers.artifact.runtime_paths import runtime_paths
from tunefarm_workers.correctness.guarded_tensor import GuardedTensor
from tunefarm_workers.timing.call_timer import CallTimer

PREFIX = "attack:"
DAMAGED_OTHERWISE, DAMAGED_ALIKE, DAMAGED_IN_A_ROW = 72, 76, 1088
"""Rows of the products whose reference is damaged: differently each time, always alike, or in one row."""
CONSTANT = 1.25

_true_replay = candidate.replay
_true_contents = GuardedTensor.contents
_true_run = reference._UntunedFunction.run
_true_seconds_of = reference._seconds_of
_true_link = link_child.link_kernel
_attack = ""
_JOB = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_runtime: list[ctypes.CDLL] = []


def arm() -> None:
    from tunefarm_workers.child.preload import preload

    preload()
    candidate.replay = comparison_child.replay = replay
    kernel.CallTimer = HostileTimer
    GuardedTensor.contents = contents
    reference._UntunedFunction.run = run_and_damage
    reference._seconds_of = seconds_of_sealed
    _runtime.append(ctypes.CDLL(runtime_paths()[1]))
    link_child.replay = replay_to_link
    link_child.link_kernel = hostile_link


def replay(module: Any, trace_text: str | None, callees: tuple[str, ...] = ()) -> Any:
    global _attack
    if trace_text is None or not trace_text.startswith(PREFIX):
        return _true_replay(module, trace_text, callees=callees)
    _attack = trace_text.removeprefix(PREFIX)
    if _attack == "loop while building":
        while True:
            pass
    if _attack == "sleep while building":
        time.sleep(1000)
    if _attack == "segfault while building":
        ctypes.string_at(0)
    if _attack == "eat memory while building":
        _allocate_memory()
    return module


def contents(tensor: GuardedTensor) -> memoryview:
    true = _true_contents(tensor)
    if _attack != "give a constant":
        return true
    return memoryview(np.full(true.nbytes // 4, CONSTANT, np.float32)).cast("B")


def run_and_damage(form: Any, set_number: int) -> list[GuardedTensor]:
    outputs: list[GuardedTensor] = _true_run(form, set_number)
    rows = form._arguments[-1].tensor.shape[0]
    if set_number == 0 and rows in {DAMAGED_OTHERWISE, DAMAGED_ALIKE}:
        pattern = os.getpid() % 59 if rows == DAMAGED_OTHERWISE else 60
        outputs[0]._inside[:] = pattern
    if set_number == 0 and rows == DAMAGED_IN_A_ROW:
        outputs[0]._inside.reshape(rows, -1)[700] = 60
    return outputs


def seconds_of_sealed(function: Any, tensors: list[Any]) -> float:
    """Refuse to run the user's function, as a kernel that raises, where a kernel could look at files."""
    outcomes = tried("stat: /")
    if outcomes != "PermissionError":
        raise RuntimeError(f"the reference is not sealed: {outcomes}")
    return _true_seconds_of(function, tensors)


def tried_by_every_thread(attack: str) -> str:
    """The results of ``attack`` in each thread of the kernels' pool, including the calling one."""
    outcomes: dict[int, str] = {}

    def job(task: int, _environment: object, _data: object) -> int:
        outcomes[task] = tried(attack)
        return 0

    assert _runtime[0].TVMBackendParallelLaunch(_JOB(job), None, 2) == 0
    return f"{len(outcomes)} threads: {' '.join(sorted(set(outcomes.values())))}"


def replay_to_link(module: Any, trace_text: str | None, callees: tuple[str, ...] = ()) -> Any:
    global _attack
    if trace_text is None or not trace_text.startswith(f"{PREFIX}link "):
        return _true_replay(module, trace_text, callees=callees)
    _attack = trace_text.removeprefix(PREFIX)
    return module


def hostile_link(linker: Any, library: Path, objects: Any, flags: Any, folder: Path) -> None:
    """The attack of a candidate that owns the child that links: it chooses the bytes of the library."""
    source = {"link a constructor": CONSTRUCTOR, "link a counter": COUNTER}.get(_attack)
    if source is None:
        _true_link(linker, library, objects, flags, folder)
        return
    (folder / "own.c").write_text(source)
    subprocess.run([*linker, "-c", "-fPIC", "-O1", "-o", str(folder / "own.o"), str(folder / "own.c")], check=True)
    added = objects if _attack == "link a constructor" else []
    _true_link(linker, library, [*added, str(folder / "own.o")], flags, folder)


CONSTRUCTOR = "static int n; __attribute__((constructor)) void begin(void) { n++; }"
COUNTER = """
/* The matrix product of 64 by 64, right for the first ten calls. */
static float *data(const char *any) {
    const char *tensor = *(const char *const *)(any + 8);
    return *(float *const *)(*(const int *)any >= 64 ? tensor + 24 : tensor);
}
int __tvm_ffi_main(void *handle, const char *any, int count, void *result) {
    static int calls;
    float *a = data(any), *b = data(any + 16), *c = data(any + 32);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            float sum = 0;
            for (int k = 0; k < 64; k++) sum += a[64 * i + k] * b[64 * k + j];
            c[64 * i + j] = sum;
        }
    if (++calls > 10) c[7] += 1000;
    return 0;
}
"""


class HostileTimer(CallTimer):
    def call(self) -> float:
        if _attack.startswith("try "):
            raise RuntimeError(tried(_attack.removeprefix("try ")))
        if _attack.startswith("have all threads try "):
            raise RuntimeError(tried_by_every_thread(_attack.removeprefix("have all threads try ")))
        if _attack == "have the runtime complain":
            self._evaluator(1)
        if _attack == "segfault":
            ctypes.string_at(0)
        if _attack == "abort":
            ctypes.CDLL(None).abort()
        if _attack == "never return":
            while True:
                pass
        if _attack == "eat memory":
            _allocate_memory()
        return super().call()

    def seconds_per_call(self, calls: int) -> float:
        global _attack
        if _attack == "slow second call":
            time.sleep(1000)
        if _attack == "tell three nanoseconds":
            return 3e-9
        if _attack == "take a while":
            time.sleep(0.02)
        if _attack == "take long":
            time.sleep(1.2)
        if _attack == "wait once":
            _attack = ""
            time.sleep(1.2)
        return super().seconds_per_call(calls)


def _allocate_memory() -> None:
    """Memory that is not touched: a slow host would take longer for that than a call may."""
    allocated = []
    while True:
        allocated.append(bytes(16 << 20))


def spin(channel: Any, payload: bytes, descriptors: list[int]) -> None:
    """An entry: a bystander that computes until it is stopped."""
    while True:
        pass
