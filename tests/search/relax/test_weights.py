"""Weights that are lifted out of modules."""

import numpy as np
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tunefarm_search.relax.constants import constant_of
from tunefarm_search.relax.weights import LiftedConstants, lift_weights


def module_of(constants: list[object]) -> object:
    def build(builder: relax.BlockBuilder, given: list[object], _names: list[object]) -> object:
        total = given[0]
        for each in constants:
            total = builder.emit(relax.op.add(total, each))
        return total

    return one_entry(build, [(16, 8)], ())


def test_weights_with_equal_contents_are_one() -> None:
    equal = [constant_of(random_array(16, 8)) for _ in range(2)]
    lifted = lift_weights(module_of(equal), ["main"])
    assert lifted.of_entries == {"main": ("w0",)}


def test_modules_that_share_constants_agree_on_names() -> None:
    first, same, other = (constant_of(random_array(16, 8, seed=seed)) for seed in (0, 0, 1))
    known = LiftedConstants()
    assert lift_weights(module_of([first, other]), ["main"], known).of_entries == {"main": ("w0", "w1")}
    later = lift_weights(module_of([same]), ["main"], known)
    assert later.of_entries == {"main": ("w0",)}
    np.testing.assert_array_equal(later.weights["w1"], random_array(16, 8, seed=1))
