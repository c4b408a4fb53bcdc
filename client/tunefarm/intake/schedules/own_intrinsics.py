"""Tensor intrinsics that a user's Python file registers. Called only in a process that may run the user's code."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tvm.s_tir import TensorIntrin

from tunefarm.intake.user_file import run_user_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Sketch, Trace
from tunefarm_search.tvm.tensor_intrinsics.of_tvm import is_of_tvm, load_intrinsics_for
from tunefarm_search.validation.own_intrinsics import FIELD, carried_name, is_carried, require_pair
from tunefarm_search.validation.trace_application import intrinsics_in

REGISTER_FIX: Final = "Call tvm.s_tir.TensorIntrin.register(NAME, description, implementation) in it."


def register_own_intrinsics(path: str, target: Target) -> tuple[str, ...]:
    """Execute a Python file that registers tensor intrinsics, and return their names.

    Raises:
        BadInput: the file raises, registers none, or one of them cannot be used.
    """
    load_intrinsics_for(target)
    with _checked_registration() as (names, problems):
        run_user_file(FIELD, path)
    if problems:
        raise problems[0]
    if not names:
        raise BadInput(FIELD, f"{Path(path).name} registers no intrinsics.", REGISTER_FIX)
    return tuple(names)


def carrying_sketch(sketch: Sketch) -> Sketch:
    """A sketch that carries the user's intrinsics that it tensorizes with.

    Raises:
        BadInput: one of them cannot be used.
    """
    return Sketch(text=_carrying(sketch.text))


def carrying_trace(trace: Trace) -> Trace:
    """A trace that carries the user's intrinsics that it tensorizes with.

    Raises:
        BadInput: one of them cannot be used.
    """
    return Trace(text=_carrying(trace.text))


def _carrying(text: str) -> str:
    """Replace the names of intrinsics of this process, other than TVM's, by names that contain them."""
    steps = json.loads(text)
    own = {name for name in intrinsics_in(steps) if isinstance(name, str) and not is_carried(name)}
    names = {name: _carried(name) for name in own if not is_of_tvm(name)}
    for step in steps[0]:
        if step[0] == "Tensorize" and step[2][0] in names:
            step[2][0] = names[step[2][0]]
    return canonical_json(steps)


def _carried(name: str) -> str:
    intrinsic = TensorIntrin.get(name)
    return carried_name(name, intrinsic.desc, intrinsic.impl)


@contextmanager
def _checked_registration() -> Iterator[tuple[list[str], list[BadInput]]]:
    """Check what is registered, and collect names and problems.

    A problem is not raised where it is found, because that would appear as a failure of the user's file.
    """
    names: list[str] = []
    problems: list[BadInput] = []
    original = TensorIntrin.register

    def register(name: str, desc: Any, impl: Any, override: bool = False) -> None:
        try:
            _require_free(name)
            require_pair(name, desc, impl)
        except BadInput as error:
            problems.append(error)
        else:
            names.append(name)
            original(name, desc, impl, override)

    TensorIntrin.register = staticmethod(register)
    try:
        yield names, problems
    finally:
        TensorIntrin.register = staticmethod(original)


def _require_free(name: str) -> None:
    if is_of_tvm(name) or name.startswith("tunefarm."):
        raise BadInput(FIELD, f"{name} is the name of an intrinsic of TVM or tunefarm.", "Give yours another name.")
