"""Runs an imported model as it is compiled without a trial: prepared, and with an untried schedule of each function."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.search.relax.models import run
from tests.search.scheduled import untried_machine
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

Array = npt.NDArray[np.generic]
TARGET = host_target(1)


def runner(model: RelaxModel, entry: str = "main") -> Callable[[Iterable[Any]], list[Array]]:
    """Compile a model; the result gives the outputs of ``entry`` for its inputs."""
    machine = untried_machine(prepare(model.module, model.weights, TARGET))

    def outputs(inputs: Iterable[Any]) -> list[Array]:
        found = run(machine, [np.array(each, order="C") for each in inputs], entry)
        return list(found) if isinstance(found, tuple) else [found]

    return outputs


def by_tvm(model: RelaxModel, inputs: Sequence[Array]) -> list[Array]:
    return runner(model)(inputs)
