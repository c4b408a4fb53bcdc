"""Candidates that misbehave, armed inside a fork server: a trace that names a misdeed commits it in its child.

What a compiled kernel of a hostile module could do is done here by the child that would run it, at the same stage and
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

PREFIX = "misdeed:"
DAMAGED_OTHERWISE, DAMAGED_ALIKE, DAMAGED_IN_A_ROW = 72, 76, 1088
"""Of products of matrices of so many rows the reference is damaged: each time in another way, or always in the same."""
CONSTANT = 1.25

_true_replay = candidate.replay
_true_contents = GuardedTensor.contents
_true_run = reference._UntunedFunction.run
_true_seconds_of = reference._seconds_of
_true_link = link_child.link_kernel
_misdeed = ""
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
    global _misdeed
    if trace_text is None or not trace_text.startswith(PREFIX):
        return _true_replay(module, trace_text, callees=callees)
    _misdeed = trace_text.removeprefix(PREFIX)
    if _misdeed == "loop while building":
        while True:
            pass
    if _misdeed == "sleep while building":
        time.sleep(1000)
    if _misdeed == "segfault while building":
        ctypes.string_at(0)
    if _misdeed == "eat memory while building":
        _eat()
    return module


def contents(tensor: GuardedTensor) -> memoryview:
    true = _true_contents(tensor)
    if _misdeed != "give a constant":
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
    told = tried("stat: /")
    if told != "PermissionError":
        raise RuntimeError(f"the reference is not sealed: {told}")
    return _true_seconds_of(function, tensors)


def tried_by_every_thread(attack: str) -> str:
    """What comes of ``attack`` in each thread of the kernels' pool, the calling one included."""
    told: dict[int, str] = {}

    def job(task: int, _environment: object, _data: object) -> int:
        told[task] = tried(attack)
        return 0

    assert _runtime[0].TVMBackendParallelLaunch(_JOB(job), None, 2) == 0
    return f"{len(told)} threads: {' '.join(sorted(set(told.values())))}"


def replay_to_link(module: Any, trace_text: str | None, callees: tuple[str, ...] = ()) -> Any:
    global _misdeed
    if trace_text is None or not trace_text.startswith(f"{PREFIX}link "):
        return _true_replay(module, trace_text, callees=callees)
    _misdeed = trace_text.removeprefix(PREFIX)
    return module


def hostile_link(linker: Any, library: Path, objects: Any, flags: Any, folder: Path) -> None:
    """What a candidate does that owns the child that links: the bytes that come back are its own."""
    source = {"link a constructor": CONSTRUCTOR, "link a counter": COUNTER}.get(_misdeed)
    if source is None:
        _true_link(linker, library, objects, flags, folder)
        return
    (folder / "own.c").write_text(source)
    subprocess.run([*linker, "-c", "-fPIC", "-O1", "-o", str(folder / "own.o"), str(folder / "own.c")], check=True)
    added = objects if _misdeed == "link a constructor" else []
    _true_link(linker, library, [*added, str(folder / "own.o")], flags, folder)


CONSTRUCTOR = "static int n; __attribute__((constructor)) void begin(void) { n++; }"
COUNTER = """
/* The matrix product of 64 by 64, right for the first 300 calls. */
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
    if (++calls > 300) c[7] += 1000;
    return 0;
}
"""


class HostileTimer(CallTimer):
    def call(self) -> float:
        if _misdeed.startswith("try "):
            raise RuntimeError(tried(_misdeed.removeprefix("try ")))
        if _misdeed.startswith("have all threads try "):
            raise RuntimeError(tried_by_every_thread(_misdeed.removeprefix("have all threads try ")))
        if _misdeed == "have the runtime complain":
            self._evaluator(1)
        if _misdeed == "segfault":
            ctypes.string_at(0)
        if _misdeed == "abort":
            ctypes.CDLL(None).abort()
        if _misdeed == "never return":
            while True:
                pass
        if _misdeed == "eat memory":
            _eat()
        return super().call()

    def seconds_per_call(self, calls: int) -> float:
        if _misdeed == "slow second call":
            time.sleep(1000)
        if _misdeed == "tell three nanoseconds":
            return 3e-9
        if _misdeed == "take a while":
            time.sleep(0.02)
        if _misdeed == "take long":
            time.sleep(1.2)
        return super().seconds_per_call(calls)


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(16 << 20))


def spin(channel: Any, payload: bytes, descriptors: list[int]) -> None:
    """An entry: a bystander that computes for as long as it may."""
    while True:
        pass
