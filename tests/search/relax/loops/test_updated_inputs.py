"""The second function of an entry updates inputs that it returns, and computes what the entry does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx, topi

from tests.search.relax.models import random_array
from tests.search.scheduled import build_quickly
from tunefarm_schemas.kernel_library.program import in_place_name
from tunefarm_schemas.tuning.model import EntryUpdates
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.loops.partial_updates import REST_IS_UNSPECIFIED
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.weights import lift_weights
from tunefarm_search.tvm.target import host_target

HEADS, ROWS, WIDTH = 2, 16, 3
PLACE = 5
Emit = Callable[..., Any]
Update = Callable[[Emit, Any, Any, Any], Any]
"""The cache with new rows; gets what emits a TE function, the cache, new rows and the place of the first."""


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


def model(update: Update, rows: int = 1, *, returns: Callable[[Any, Any], list[Any]] = lambda _, new: [new]) -> Any:
    """``main`` of ``cache``, ``new`` and ``place``: sums of the updated cache, and what ``returns`` gives of both."""
    builder = relax.BlockBuilder()
    cache = relax.Var("cache", relax.TensorType((HEADS, ROWS, WIDTH), "float32"))
    new = relax.Var("new", relax.TensorType((HEADS, rows, WIDTH), "float32"))
    place = relax.Var("place", relax.TensorType((1,), "int64"))
    with builder.function("main", [cache, new, place]):
        with builder.dataflow():
            updated = update(builder.emit_te, cache, new, place)
            total = builder.emit(relax.op.sum(updated, axis=1))
            result = builder.emit_output(relax.Tuple([total, *returns(cache, updated)]))
        builder.emit_func_output(result)
    return builder.get()


class Program:
    """A model on this machine, with both functions."""

    def __init__(self, module: Any, here: Target) -> None:
        lifted = lift_weights(prepare(module, {}, here).module, ["main"])
        lowered = lower(lifted.module, here)
        self.updated_inputs = lowered.updated_inputs
        self._machine = virtual_machine(lowered, here, build_quickly)
        self._new = random_array(*(int(extent) for extent in module["main"].params[1].ty.shape))

    def assert_updates(self) -> np.ndarray[Any, Any]:
        """Assert that the second function changes its input and computes what the entry does; return changed rows."""
        assert self.updated_inputs == (EntryUpdates(entry="main", inputs=("cache",)),)
        given = random_array(HEADS, ROWS, WIDTH)
        cache, *rest = map(tvm.runtime.tensor, (given, self._new, np.array([PLACE])))
        expected = [each.numpy() for each in self._machine["main"](cache, *rest)]
        np.testing.assert_array_equal(cache.numpy(), given)

        found = self._machine[in_place_name("main")](cache, *rest)

        assert found[1].data_ptr() == cache.data_ptr()
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(other.numpy(), one, rtol=1e-6)
        changed = (cache.numpy() != given).any(axis=(0, 2))
        np.testing.assert_array_equal(cache.numpy()[:, changed], self._new)
        return np.flatnonzero(changed)


def chosen(condition: Callable[..., Any], *, is_kept_first: bool = False, is_select: bool = False) -> Update:
    """An update that writes the first of the new rows where a condition of the row and the place holds."""

    def computed(cache: Any, new: Any, place: Any) -> Any:
        def element(head: Any, row: Any, column: Any) -> Any:
            branches = [new[head, 0, column], cache[head, row, column]]
            is_new = condition(row, place[0])
            choose = tirx.Select if is_select else tirx.if_then_else
            return choose(tirx.Not(is_new), *reversed(branches)) if is_kept_first else choose(is_new, *branches)

        return te.compute(cache.shape, element, name="chosen")

    return lambda emit, *given: emit(computed, *given)


@pytest.mark.parametrize(("is_kept_first", "is_select"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.quick_cases(2)
def test_row_is_written_into_the_input(here: Target, is_kept_first: bool, is_select: bool) -> None:
    update = chosen(lambda row, place: row == place, is_kept_first=is_kept_first, is_select=is_select)

    assert list(Program(model(update), here).assert_updates()) == [PLACE]


def test_row_is_computed_where_it_is_written(here: Target) -> None:
    def update(emit: Emit, cache: Any, new: Any, place: Any) -> Any:
        halved = emit(lambda rows: te.compute(rows.shape, lambda *at: rows[at] * 0.5), new)
        doubled = emit(lambda rows: te.compute(rows.shape, lambda *at: rows[at] * 2.0), halved)
        return chosen(lambda row, place: row == place)(emit, cache, doubled, place)

    assert list(Program(model(update), here).assert_updates()) == [PLACE]


def test_mask_of_rows_says_which_rows_are_written(here: Target) -> None:
    def update(emit: Emit, cache: Any, new: Any, place: Any) -> Any:
        mask = emit(lambda place: te.compute((1, ROWS, 1), lambda _, row, __: row == place[0]), place)
        return emit(lambda mask, new, cache: topi.where(mask, new, cache), mask, new, cache)

    assert list(Program(model(update), here).assert_updates()) == [PLACE]


@pytest.mark.parametrize("rows", [1, 3])
def test_scatter_writes_without_a_copy(here: Target, rows: int) -> None:
    def update(emit: Emit, cache: Any, new: Any, place: Any) -> Any:
        def places(place: Any) -> Any:
            return te.compute((HEADS, rows, WIDTH), lambda head, row, column: place[0] + row)

        at = emit(places, place)
        return emit(lambda cache, at, new: topi.scatter_elements(cache, at, new, axis=1), cache, at, new)

    assert list(Program(model(update, rows), here).assert_updates()) == [*range(PLACE, PLACE + rows)]


def test_constant_behind_the_part_is_left_out_where_it_is_unspecified(here: Target) -> None:
    def appended(cache: Any, new: Any, place: Any) -> Any:
        def element(head: Any, row: Any, column: Any) -> Any:
            own = tirx.if_then_else(row < place[0] + 1, new[head, 0, column], tirx.const(0.0, "float32"))
            return tirx.if_then_else(row < place[0], cache[head, row, column], own)

        return te.compute(cache.shape, element, name="appended", attrs={REST_IS_UNSPECIFIED: 1})

    lifted = lift_weights(prepare(model(lambda emit, *given: emit(appended, *given)), {}, here).module, ["main"])
    machine = virtual_machine(lower(lifted.module, here), here, build_quickly)
    cache, new = random_array(HEADS, ROWS, WIDTH), random_array(HEADS, 1, WIDTH)
    given = [tvm.runtime.tensor(each) for each in (cache, new, np.array([PLACE]))]

    copied, updated = (machine[name](*given)[1].numpy() for name in ("main", in_place_name("main")))

    expected = cache.copy()
    expected[:, PLACE] = new[:, 0]
    np.testing.assert_array_equal(updated, expected)
    expected[:, PLACE + 1 :] = 0
    np.testing.assert_array_equal(copied, expected)


def at_place(emit: Emit, cache: Any, new: Any, place: Any) -> Any:
    return chosen(lambda row, place: row == place)(emit, cache, new, place)


def reads_the_old_input(emit: Emit, cache: Any, new: Any, place: Any) -> Any:
    updated = at_place(emit, cache, new, place)
    return emit(lambda one, other: te.compute(one.shape, lambda *at: one[at] - 2 * other[at]), updated, cache)


def changes_most(emit: Emit, cache: Any, new: Any, place: Any) -> Any:
    del place
    whole = emit(lambda new: te.compute((HEADS, ROWS, WIDTH), lambda head, row, at: new[head, 0, at] * row), new)
    sums = emit(lambda whole: topi.sum(whole, axis=2, keepdims=True), whole)
    return emit(lambda sums, whole, cache: topi.where(sums, whole, cache), sums, whole, cache)


@pytest.mark.parametrize(
    "module",
    [
        model(reads_the_old_input),
        model(changes_most),
        model(at_place, returns=lambda cache, _: [cache]),
        model(at_place, returns=lambda _, __: []),
    ],
    ids=["old input is read", "large part", "old input is returned", "update is not returned"],
)
def test_other_inputs_are_copied(here: Target, module: Any) -> None:
    program = Program(module, here)

    assert program.updated_inputs == ()
