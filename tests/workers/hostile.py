"""Candidates that misbehave, armed inside a fork server: a trace that names a misdeed commits it in its child.

What a compiled kernel of a hostile module could do is done here by the child that would run it, at the same stage and
under the same confinement.
"""

import ctypes
import time
from typing import Any

import tunefarm_workers.candidate as candidate
import tunefarm_workers.comparison_child as comparison_child
from tunefarm_workers.call_timer import CallTimer

PREFIX = "misdeed:"

_true_replay = candidate.replay
_misdeed = ""


def arm() -> None:
    from tunefarm_workers.preload import preload

    preload()
    candidate.replay = comparison_child.replay = replay
    candidate.CallTimer = HostileTimer


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
