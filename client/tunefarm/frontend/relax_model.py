"""A model as every frontend returns it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ModelReference:
    """What the framework computes for some inputs. Both are in the order of the entry function's, tuples flattened.

    ``exact`` are the outputs in the same types, but computed in float32, of a model in float16 or bfloat16: they show
    how much the framework rounds. Empty for others, and where they could not be computed.
    """

    entry: str
    inputs: tuple[npt.NDArray[np.generic], ...]
    outputs: tuple[npt.NDArray[np.generic], ...]
    exact: tuple[npt.NDArray[np.generic], ...] = ()


@dataclass(frozen=True)
class RelaxModel:
    """A Relax module, and its weights beside it.

    Attributes:
        module: TVM's ``IRModule``. Each entry function has the attribute ``num_input``; the parameters after that many
            are its weights. Parameters have the names of the framework.
        weights: the contents of those parameters, in their order, by the name of the entry function.
        framework: name and version of what wrote the model, such as ``torch 2.13.0``.
        notes: what a user should know, such as a dimension that was fixed.
        references: results of the framework; empty where it cannot run the model.
    """

    module: Any
    weights: Mapping[str, tuple[npt.NDArray[np.generic], ...]]
    framework: str
    notes: tuple[str, ...] = ()
    references: tuple[ModelReference, ...] = ()
