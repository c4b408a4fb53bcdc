"""Valid, broken and hostile traces for a small workload."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import te

from tests.acceptance.hostile.native_misdeeds import BODIES, module_text
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.trace import trace_of

EXTENT = 64
DIED = frozenset({FailureReason.CRASH})
LATE = frozenset({FailureReason.RUN_TIMEOUT})
INVALID = frozenset({FailureReason.INVALID_SCHEDULE})
WRONG = frozenset({FailureReason.WRONG_RESULT})
FULL = frozenset({FailureReason.OUT_OF_MEMORY, FailureReason.CRASH})
ANY = frozenset(FailureReason) - {FailureReason.CANCELED, FailureReason.DEVICE_LOST}

NATIVE_ENDS: dict[str, frozenset[FailureReason] | None] = {
    "abort": DIED,
    "segfault": DIED,
    "divide by zero": DIED,
    "illegal instruction": DIED,
    "never return": LATE,
    "sleep": LATE,
    "eat memory": FULL | LATE,
    "exit as if all were well": DIED,
    "recurse": DIED,
    "stop itself": LATE | DIED,
    "kill its parent": None,
    "kill everything": None,
    "fork": None,
    "open a socket": None,
    "write a file": None,
    "babble on its output": LATE | DIED | FULL,
    "send nonsense everywhere": DIED | LATE,
    "close everything": ANY,
    "be wrong": WRONG,
    "hang later": LATE | DIED,
    "crash later": DIED,
}
"""The permitted results of each attack. None: the sandbox blocks it, and the candidate may be timed."""


@dataclass(frozen=True)
class HostileCandidate:
    """A trace and its permitted failure reasons; None if it is harmless and may be timed."""

    name: str
    trace: Trace
    reasons: frozenset[FailureReason] | None


@cache
def workload() -> tvm.IRModule:
    """A matrix-vector product followed by an error function, for which TVM calls the C library."""
    a = te.placeholder((EXTENT, EXTENT), name="A")
    out = te.compute((EXTENT, EXTENT), lambda i, j: a[i, j] * tvm.tirx.erf(a[i, j]), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, out])})


def good(rows: int = 8) -> Trace:
    def change(schedule: Any, i: Any, j: Any) -> None:
        outer, _ = schedule.split(i, [None, rows])
        schedule.parallel(outer)

    return scheduled(change)


def scheduled(change: Callable[[Any, Any, Any], object]) -> Trace:
    schedule = tvm.s_tir.Schedule(workload())
    i, j = schedule.get_loops(schedule.get_sblock("C"))
    change(schedule, i, j)
    return trace_of(schedule)


def native(name: str, path: str) -> HostileCandidate:
    text = module_text(name, path)
    trace = scheduled(lambda schedule, i, j: schedule.annotate(i, "pragma_import_llvm", text))
    return HostileCandidate(name, trace, NATIVE_ENDS[name])


def all_native(path: str) -> Iterator[HostileCandidate]:
    yield from (native(name, path) for name in BODIES)


def broken() -> Iterator[HostileCandidate]:
    """Traces that do not yield a schedule."""
    sound = good().text
    texts = {
        "nothing": "",
        "no JSON": "schedule, please",
        "a number": "7",
        "null": "null",
        "an object": "{}",
        "an empty list": "[]",
        "cut off": sound[: len(sound) // 2],
        "nested deeply": "[" * 50_000,
        "an unknown instruction": '[[["Overclock",["b0"],[],[]]],[]]',
        "no such block": sound.replace('"C"', '"D"'),
        "an unknown variable": sound.replace('["l1"', '["l77"', 1),
        "a negative factor": sound.replace("8", "-8"),
        "a factor that is a word": sound.replace("8", '"eight"'),
        "zero bytes": sound.replace("Split", "Spl\\u0000it"),
        "code": "[[[\"__import__('os').abort()\",[],[],[]]],[]]",
    }
    for name, text in texts.items():
        yield HostileCandidate(name, Trace(text=text), INVALID)


def misused() -> Iterator[HostileCandidate]:
    """Schedules that apply and do not build, do not end building, or compute something else."""
    bound = scheduled(lambda schedule, i, j: schedule.bind(i, "threadIdx.x"))
    yield HostileCandidate("threads of a GPU", bound, frozenset({FailureReason.BUILD_ERROR}))
    yield HostileCandidate("two elements in one place", scheduled(_folded), WRONG)
    yield HostileCandidate("half of the digits", scheduled(_narrowed), WRONG)
    text = "this is no LLVM"
    no_llvm = scheduled(lambda schedule, i, j: schedule.annotate(i, "pragma_import_llvm", text))
    yield HostileCandidate("an import that does not parse", no_llvm, frozenset({FailureReason.BUILD_ERROR}) | DIED)


def mutated(generator: random.Random) -> HostileCandidate:
    """A valid trace with some bytes changed. It may still be valid."""
    text = list(good(generator.choice([1, 2, 4, 16])).text)
    for _ in range(generator.randint(1, 6)):
        text[generator.randrange(len(text))] = generator.choice('[]{}",0123456789lbvCS')
    changed = "".join(text)
    return HostileCandidate("changed bytes", Trace(text=changed), None if _is_json(changed) else INVALID)


def _folded(schedule: Any, _i: Any, _j: Any) -> None:
    cache_block = schedule.cache_write(schedule.get_sblock("C"), 0, "global")
    schedule.transform_layout(cache_block, ("read", 0), lambda i, j: (i // 2, j), assume_injective_transform=True)


def _narrowed(schedule: Any, _i: Any, _j: Any) -> None:
    block = schedule.get_sblock("C")
    schedule.cache_write(block, 0, "global")
    schedule.unsafe_set_dtype(block, 0, "float16")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
