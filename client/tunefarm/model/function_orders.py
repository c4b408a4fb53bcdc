"""What the children that compile a model are given, and how each of its functions came out."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.weights_file import write_weights
from tunefarm.model.messages import FunctionBuilt, FunctionOrder, PreparedTask
from tunefarm_schemas.tuning.bundle import BundleRecord
from tunefarm_schemas.tuning.model import ModelFunction
from tunefarm_schemas.tuning.target import Target


@dataclass(frozen=True)
class ChosenRecord:
    """A record whose schedule a function gets."""

    record_id: str
    trace: str
    measured: BundleRecord | None = None
    """What its kernel was measured to take; None if that is not known."""


Orders: TypeAlias = Sequence[tuple[PreparedTask | None, FunctionOrder]]
"""Functions to compile, with the tasks that they belong to; None for those without a schedule."""


@contextmanager
def passed_weights(model: ImportedModel) -> Iterator[tuple[int, dict[str, tuple[str, ...]]]]:
    """Memory with the weights of a model for a child, and their names in it by entry."""
    given = os.memfd_create("weights", os.MFD_CLOEXEC)
    try:
        arrays = {id(each): each for many in model.weights.values() for each in many}  # entries share some
        write_weights(given, {str(key): each for key, each in arrays.items()})
        yield given, {entry: tuple(str(id(each)) for each in many) for entry, many in model.weights.items()}
    finally:
        os.close(given)


def function_orders(
    tasks: Sequence[PreparedTask],
    rest_json: str | None,
    target: Target,
    records: Mapping[str, ChosenRecord],
    folder: Path,
) -> list[tuple[PreparedTask | None, FunctionOrder]]:
    """An order for each task, with the schedule of its record in ``records`` by workload id, and one for the rest."""
    orders: list[tuple[PreparedTask | None, FunctionOrder]] = []
    for task in tasks:
        record = records.get(task.workload.workload_id)
        order = FunctionOrder(
            module_json=task.workload.module_json,
            names=task.functions,
            target=target,
            trace=None if record is None else record.trace,
            record_id=None if record is None else record.record_id,
            folder=str(folder),
        )
        orders.append((task, order))
    if rest_json is not None:
        orders.append((None, FunctionOrder(module_json=rest_json, target=target, folder=str(folder))))
    return orders


def functions_of(task: PreparedTask | None, order: FunctionOrder, built: FunctionBuilt) -> list[ModelFunction]:
    """How the functions of a task were scheduled; none for those of no task."""
    if task is None:
        return []
    return [
        ModelFunction(
            name=each,
            workload_id=task.workload.workload_id,
            calls=sum(task.calls.values()),
            kind=built.kind,
            record_id=order.record_id if built.kind == "record" else None,
            way=built.way,
        )
        for each in task.functions
    ]
