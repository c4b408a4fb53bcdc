"""Workloads: one TIR function, normalised."""

from typing import Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.roofline import Work

Abi = Literal["stable", "packed"]
"""``stable``: the scheduled function accepts exactly the workload's arguments. ``packed``: constant arguments are
stored in a layout that the schedule chooses, and the artifact contains the ``pack`` function that produces it."""


class TensorArgument(Frozen):
    """One parameter of a workload."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_output: bool
    """Whether the function writes it. Inputs must be unchanged after a call."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


class Workload(Frozen):
    """A TIR function called ``main`` in a module of its own.

    ``structural_hash`` is TVM's, as decimal text, and valid only for ``tvm_version``: it finds a workload, and
    ``structural_equal`` with ``module_json`` confirms it. ``workload_id`` is the digest of ``module_json``.
    """

    workload_id: str
    structural_hash: str
    tvm_version: str
    module_json: str = Field(repr=False)
    name: str
    arguments: tuple[TensorArgument, ...]
    floating_point_operations: float
    work: Work | None = None
    """None if its form is not understood, or if an earlier version stored it."""


class Task(Frozen):
    """A workload on a target, with the number of calls in the model."""

    workload_id: str
    target_id: str
    name: str
    weight: float = Field(default=1.0, gt=0)
