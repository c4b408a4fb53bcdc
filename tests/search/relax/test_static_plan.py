"""Plans of models: which kernel reads and writes what, and where tensors stand."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.search.relax.models import (
    SmallModel,
    controlled,
    convolutional_network,
    flattened,
    loop,
    multilayer_perceptron,
    one_entry,
    tuples,
    two_entries,
)
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.static_plan.arena import ALIGNMENT_BYTES, Lifetime, aligned, placed
from tunefarm_search.relax.static_plan.plan import COPY, StaticPlan, static_plan
from tunefarm_search.tvm.target import canonical_target

TARGET = canonical_target({"kind": "llvm"}, 1).target
lifetimes = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 8), st.integers(0, 8)).map(
        lambda each: Lifetime(each[0], min(each[1:]), max(each[1:]))
    ),
    max_size=12,
)


def prepared(model: SmallModel) -> PreparedModel:
    return prepare(model.module, model.weights, TARGET)


@given(lifetimes)
def test_arena_keeps_tensors_in_use_apart(tensors: list[Lifetime]) -> None:
    arena = placed(tensors)
    ends = [offset + each.size_bytes for offset, each in zip(arena.offsets, tensors, strict=True)]
    assert all(offset % ALIGNMENT_BYTES == 0 for offset in arena.offsets)
    assert all(end <= arena.size_bytes for end in ends)
    for one, first in enumerate(tensors):
        for other, second in enumerate(tensors[:one]):
            if first.meets(second) and first.size_bytes and second.size_bytes:
                assert ends[one] <= arena.offsets[other] or ends[other] <= arena.offsets[one]


@settings(max_examples=50)
@given(lifetimes)
def test_arena_is_not_larger_than_all_tensors_and_not_smaller_than_those_of_a_step(tensors: list[Lifetime]) -> None:
    sizes = [sum(aligned(each.size_bytes) for each in tensors if each.begins <= step <= each.ends) for step in range(9)]
    assert max(sizes) <= placed(tensors).size_bytes <= sum(aligned(each.size_bytes) for each in tensors)


def test_arena_reuses_memory() -> None:
    chain = [Lifetime(100, step, step + 1) for step in range(10)]
    assert placed(chain).size_bytes == 2 * aligned(100)


@pytest.mark.parametrize("model", [multilayer_perceptron, convolutional_network])
def test_each_call_reads_what_is_given_or_was_written(model: Callable[[], SmallModel]) -> None:
    plan = static_plan(prepared(model()), "main")
    known = {(each.place, each.position) for each in plan.tensors if each.place in ("input", "weights")}
    for call in plan.calls:
        *read, written = (plan.tensors[number] for number in call.tensors)
        assert {(each.place, each.position) for each in read} <= known
        known.add((written.place, written.position))
    assert written.place == "output"


def test_reshapes_are_views() -> None:
    plan = static_plan(prepared(flattened()), "main")
    assert "reshape" not in plan.functions
    product, flat = plan.tensors[plan.calls[-2].tensors[-1]], plan.tensors[plan.calls[-1].tensors[0]]
    assert product.shape != flat.shape
    assert (product.place, product.position) == (flat.place, flat.position)


def test_input_that_is_returned_is_copied() -> None:
    plan = static_plan(prepared(tuples()), "main")
    copies = [call for call in plan.calls if call.function == COPY]
    assert [[plan.tensors[number].place for number in call.tensors] for call in copies] == [["input", "output"]]


def test_entries_have_plans_of_their_own() -> None:
    model = prepared(two_entries())
    plans: list[StaticPlan] = [static_plan(model, entry) for entry in ("encode", "decode")]
    assert [len(plan.calls) for plan in plans] == [1, 2]
    with pytest.raises(BadInput, match="no function 'main'"):
        static_plan(model, "main")


def test_steps_of_a_loop_are_calls() -> None:
    once, often = (static_plan(prepare(loop(doublings), {}, TARGET), "main") for doublings in (0, 5))
    assert [call.function for call in often.calls] == [call.function for call in once.calls] * 2**5
    for call, following in pairwise(often.calls):
        assert call.tensors[-1] == following.tensors[0]


def test_control_flow_is_refused() -> None:
    with pytest.raises(BadInput, match="which needs TVM's virtual machine"):
        static_plan(prepare(controlled(), {}, TARGET), "main")


def test_types_that_devices_do_not_know_are_refused() -> None:
    def build(_builder: Any, given: Sequence[Any], _names: Sequence[Any]) -> Any:
        return relax.op.astype(given[0], "float8_e4m3fn")

    module = one_entry(build, [(4,)], ())
    with pytest.raises(BadInput, match="has a tensor of float8_e4m3fn"):
        static_plan(prepare(module, {"main": ()}, TARGET), "main")
