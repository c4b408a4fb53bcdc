"""Candidates that misbehave, armed inside a fork server: a trace that names a misdeed commits it in its child.

What a compiled kernel of a hostile module could do is done here by the child that would run it, at the same stage and
under the same confinement.
"""

import ctypes
import subprocess
import time
from pathlib import Path
from typing import Any

import tunefarm_workers.candidate as candidate
import tunefarm_workers.comparison_child as comparison_child
import tunefarm_workers.link_child as link_child
from tunefarm_workers.call_timer import CallTimer

PREFIX = "misdeed:"

_true_replay = candidate.replay
_true_link = link_child.link_kernel
_misdeed = ""


def arm() -> None:
    from tunefarm_workers.preload import preload

    preload()
    candidate.replay = comparison_child.replay = replay
    candidate.CallTimer = HostileTimer
    link_child.replay = replay_to_link
    link_child.link_kernel = hostile_link


def replay(module: Any, trace_text: str | None) -> Any:
    global _misdeed
    if trace_text is None or not trace_text.startswith(PREFIX):
        return _true_replay(module, trace_text)
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


def replay_to_link(module: Any, trace_text: str | None) -> Any:
    global _misdeed
    if trace_text is None or not trace_text.startswith(f"{PREFIX}link "):
        return _true_replay(module, trace_text)
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
