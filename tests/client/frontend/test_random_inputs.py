"""Inputs that models are compared on reach what the models compute."""

from tunefarm.frontend.random_inputs import random_inputs
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.workload import TensorArgument


def test_truth_values_by_themselves_are_true_once_and_false_once() -> None:
    """Each may be a condition, whose branches are then both compared."""
    inputs = tuple(
        TensorArgument(name=f"x{number}", shape=shape, dtype="bool", is_output=False)
        for number, shape in enumerate([()] * 20 + [(1,)] * 20)
    )
    entry = ModelEntry(name="main", inputs=inputs, outputs=(), is_tuple=False)
    first, second = (random_inputs(entry, number) for number in range(2))
    assert all(bool(one) != bool(other) for one, other in zip(first, second, strict=True))
    assert {each.shape for each in second} == {(), (1,)}
