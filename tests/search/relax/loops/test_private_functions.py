"""Functions for the steps of loops cost a VM little."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import loop, random_array, run
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.loops import private_functions
from tunefarm_search.relax.loops.private_functions import with_inlined_calls
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


def calls(machine: Any, x: Any) -> Counter[str]:
    """How often the VM called each function."""
    counted: Counter[str] = Counter()

    def count(_function: Any, name: str, is_before: int, *_: Any) -> int:
        counted[str(name)] += is_before
        return 0

    machine.set_instrument(count)
    run(machine, (x,))
    return counted


def test_calls_of_a_short_loop_are_inlined(here: Target) -> None:
    prepared = prepare(loop(4), {}, here)
    whole = with_inlined_calls(prepared.module)
    assert [str(each.name_hint) for each in whole.functions if isinstance(whole[each], relax.Function)] == ["main"]
    machine = virtual_machine(lower(prepared.module, here), here, build_quickly)
    np.testing.assert_allclose(run(machine, (random_array(4),)), random_array(4) * 2.0**-16 + 2, rtol=1e-4)
    assert calls(machine, random_array(4))["vm.builtin.check_tensor_info"] == 1


def test_functions_of_a_long_loop_have_bounded_bodies(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 128
    monkeypatch.setattr(private_functions, "MAX_CALLS", most)
    doublings = most.bit_length() + 2
    prepared = prepare(loop(doublings), {}, here)
    whole = with_inlined_calls(prepared.module)
    sizes = {
        str(variable.name_hint): len(function.body.blocks[0].bindings)
        for variable, function in whole.functions.items()
        if isinstance(function, relax.Function)
    }
    assert max(sizes.values()) == most
    assert 1 < len(sizes) < doublings
    counted = calls(virtual_machine(lower(prepared.module, here), here, build_quickly), random_array(4))
    assert sum(counted[name] for name in sizes if name != "main") < 32
    assert counted["vm.builtin.check_tensor_info"] == 1


def test_functions_with_conditions_keep_their_calls_and_check_no_argument(here: Target) -> None:
    prepared = prepare(loop(3, ends_early=True), {}, here)
    machine = virtual_machine(lower(prepared.module, here), here, build_quickly)
    few, many = np.full(4, 2, "float32"), np.full(4, 4000, "float32")
    np.testing.assert_allclose(run(machine, (few,)), np.full(4, 2), rtol=1e-6)
    np.testing.assert_allclose(run(machine, (many,)), stepped(many), rtol=1e-6)
    counted = calls(machine, few)
    assert counted["loop0"] == 8
    assert counted["vm.builtin.check_tensor_info"] == 1


def stepped(x: Any) -> Any:
    """What the loop of three doublings computes if conditions end it."""

    def at(level: int, x: Any) -> Any:
        if level == 0:
            return x * 0.5 + 1
        once = at(level - 1, x)
        return at(level - 1, once) if once.sum() < 1000 else once

    return at(3, x)


def test_functions_that_none_calls_are_left_out(here: Target) -> None:
    module = prepare(loop(1), {}, here).module
    builder = relax.BlockBuilder(module)
    given = relax.Var("given", relax.TensorType((4,), "float32"))
    with builder.function("spare", [given], private=True):
        builder.emit_func_output(given)
    names = {str(each.name_hint) for each in with_inlined_calls(builder.get()).functions}
    assert "spare" not in names
    assert "main" in names
