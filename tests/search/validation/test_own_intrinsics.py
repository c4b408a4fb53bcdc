"""Intrinsics of users, carried by the names in traces."""

import json
import zlib
from base64 import urlsafe_b64encode

import pytest
import tvm
from tvm.s_tir import TensorIntrin
from tvm.s_tir.schedule import Schedule

from tests.search.script_intrinsics import LOOPS, VECTORS, WIDTH, tensorized_trace
from tests.search.script_intrinsics import doubled as doubled_text
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_search.tvm.workload import workload_of
from tunefarm_search.validation.foreign_input import foreign_sketch
from tunefarm_search.validation.own_intrinsics import (
    MAX_CONTENT_BYTES,
    carried_name,
    register_carried,
    require_pair,
    short_names,
    shortened,
)
from tunefarm_search.validation.trace_application import apply_steps


def script(text: str) -> object:
    return tvm.script.from_source(text)


def test_scheduled_function_contains_the_implementation() -> None:
    module, steps = tensorized_trace(carried_name("row_of_8", script(LOOPS), script(VECTORS)))
    schedule = Schedule(module)
    apply_steps(json.loads(json.dumps(steps)), schedule)
    assert f"T.Broadcast(A_1[0], {WIDTH})" in str(schedule.mod.script())


def test_equal_names_of_two_users_do_not_collide() -> None:
    names = [carried_name("row_of_8", script(LOOPS), script(text)) for text in (VECTORS, doubled_text(VECTORS))]
    assert len(set(names)) == 2
    texts = []
    for name in (*names, *names):
        module, steps = tensorized_trace(name)
        schedule = Schedule(module)
        apply_steps(steps, schedule)
        texts.append(str(schedule.mod.script()))
    assert texts[0] == texts[2] != texts[1] == texts[3]


def test_names_are_shown_without_their_content() -> None:
    name = carried_name("row_of_8", script(LOOPS), script(VECTORS))
    assert shortened(f'sch.tensorize(b0, "{name}")') == 'sch.tensorize(b0, "row_of_8")'
    assert short_names(f'"{name}" and "{name}"') == ("row_of_8",)


def forged(content: bytes) -> str:
    packed = urlsafe_b64encode(content).decode()
    return f"tunefarm.own/forged/{digest(packed)}/{packed}"


@pytest.mark.parametrize(
    "name",
    [
        "tunefarm.own/forged",
        f"tunefarm.own/forged/{digest('other')}/eJwDAAAAAAE=",
        forged(b"not compressed"),
        forged(zlib.compress(b" " * (MAX_CONTENT_BYTES + 1))),
        forged(zlib.compress(b"[" * 100_000)),
        forged(zlib.compress(b'[{"root_index":0,"nodes":[]}]')),
        forged(zlib.compress(json.dumps([{"root_index": 0, "nodes": [{"type": "ffi.Module"}]}] * 2).encode())),
    ],
)
def test_forged_names_register_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=r"of the trace|of its content|is not what tvm"):
        register_carried(name)
    assert TensorIntrin.get(name, allow_missing=True) is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("c, (8,)", "c, (4,)", "buffer 2 of row is float32\\[8\\] in global in the description and float32\\[4\\]"),
        ('c, (8,), "float32"', 'c, (8,), "int32"', "buffer 2 of row is float32"),
        ('scope="global"', 'scope="local"', "buffer 1 of row is float32\\[8\\] in global in the description and"),
    ],
)
def test_pair_with_other_buffers_is_rejected(old: str, new: str, problem: str) -> None:
    changed = VECTORS.replace(old, new)
    assert changed != VECTORS
    with pytest.raises(BadInput, match=problem) as refused:
        require_pair("row", script(LOOPS), script(changed.replace("C[T.ramp(0, 1, 8)] + ", "")))
    assert refused.value.field == "intrinsics"
    assert refused.value.fix == "Give both functions the same buffers in the same order."


def test_unknown_scope_is_rejected() -> None:
    loops, vectors = (text.replace('scope="global"', 'scope="elsewhere"') for text in (LOOPS, VECTORS))
    with pytest.raises(BadInput, match="buffer 1 of row is in the unknown scope 'elsewhere'"):
        require_pair("row", script(loops), script(vectors))


def test_implementation_that_calls_functions_is_rejected() -> None:
    calling = VECTORS.replace(
        "C[T.ramp(0, 1, 8)] = ", 'T.evaluate(T.call_extern("int32", "system", 0))\n        C[T.ramp(0, 1, 8)] = '
    )
    with pytest.raises(BadInput, match="the implementation of row calls call_extern\\('system'\\)"):
        require_pair("row", script(LOOPS), script(calling))


def test_service_accepts_a_sketch_with_an_intrinsic() -> None:
    module, steps = tensorized_trace(carried_name("row_of_8", script(LOOPS), script(VECTORS)))
    text = canonical_json([steps[0], []])
    assert foreign_sketch(workload_of(module), text).text == text


def test_what_is_not_a_function_is_rejected() -> None:
    with pytest.raises(BadInput, match="the implementation of row is a str, not a TIR function"):
        require_pair("row", script(LOOPS), "T.evaluate(0)")
