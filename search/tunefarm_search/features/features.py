"""Features of a point that predict its speed, computed without applying a schedule."""

from functools import partial

import numpy as np
import numpy.typing as npt

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.features.analytical_cost import NestCost, nest_cost
from tunefarm_search.features.gpu_cost import gpu_model, gpu_nest_cost
from tunefarm_search.features.loop_nest import FloatArray, LoopNest, loop_nests, tracked
from tunefarm_search.features.machine import ProcessorModel, as_sapphire_rapids
from tunefarm_search.features.separate_passes import SeparatePasses
from tunefarm_search.space.decisions import Rows, SketchSpace
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.tvm.target import (
    computes_two_registers,
    vector_bytes,
    vector_load_bytes,
    vector_registers,
    vector_unit_bytes,
)

FeatureArray = npt.NDArray[np.float32]

NESTS = 2
"""Number of tiled blocks with features of their own; the others count only in the total."""


def machine_of(target: Target) -> ProcessorModel:
    """The parameters of a target that the analytical model needs."""
    cores = max(1, target.num_cores)
    if target.kind != "llvm":
        return ProcessorModel(cores, vector_bytes=16, vector_registers=16, unit_bytes=16, load_bytes=16)
    model = ProcessorModel(
        cores, vector_bytes(target), vector_registers(target), vector_unit_bytes(target), vector_load_bytes(target)
    )
    return as_sapphire_rapids(model) if computes_two_registers(target) else model


class FeatureExtractor:
    """Features of the points of one space, in columns that are the same for all its sketches.

    ``names`` labels the columns; equal names mean the same in other spaces, so that a model can be transferred.
    """

    def __init__(self, space: SearchSpace) -> None:
        machine = machine_of(space.target)
        if space.target.kind == "cuda":
            self._cost_of = partial(gpu_nest_cost, gpu=gpu_model(space.target))
        else:
            self._cost_of = partial(nest_cost, machine=machine)
        self._has_prior = space.target.kind in {"llvm", "cuda"}
        self._sketches = space.sketches
        self._nests: list[tuple[LoopNest, ...]] = []
        self._separate: list[SeparatePasses] = []
        for sketch in space.sketches:
            tracker = tracked(space.module, sketch)
            nests = loop_nests(space.module, sketch, tracker)
            self._nests.append(tuple(nest for nest in nests if nest.pattern.writes))
            if space.target.kind == "llvm":
                self._separate.append(SeparatePasses(space.module, sketch, tracker, machine))
        self._structure = [_structure(sketch) for sketch in space.sketches]
        self.names = self._all_names()
        self._place = {name: number for number, name in enumerate(self.names)}

    def features(self, sketch: int, rows: Rows) -> tuple[FeatureArray, FloatArray]:
        """Compute features of points of one sketch, and the prior.

        Returns:
            Features of shape [points, names], with NaN where a name does not apply; and the prior of shape [points]:
            minus the logarithm (base 2) of the estimated cycles, NaN where nothing can be estimated, or minus infinity
            where no schedule of the point runs on the target.
        """
        values = np.full((len(rows), len(self.names)), np.nan, np.float32)
        for name, column in self._decided(self._sketches[sketch], rows).items():
            values[:, self._place[name]] = column
        for name, number in self._structure[sketch].items():
            values[:, self._place[name]] = number
        costs = self._costs(sketch, rows)
        for number, cost in enumerate(costs[:NESTS]):
            for name, column in cost.named.items():
                values[:, self._place[f"loops{number}.{name}"]] = np.log2(np.maximum(column, 1e-6))
        if not costs or not self._has_prior:
            return values, np.full(len(rows), np.nan)
        cycles = sum((cost.cycles for cost in costs), np.ones(len(rows)))
        if self._separate:
            cycles += self._separate[sketch].cycles(rows, self._sketches[sketch])
        prior = -np.log2(cycles)
        values[:, self._place["estimate"]] = np.where(np.isfinite(prior), prior, np.nan)
        return values, prior

    def _costs(self, sketch: int, rows: Rows) -> list[NestCost]:
        return [self._cost_of(nest, self._sketches[sketch], rows) for nest in self._nests[sketch]]

    def _decided(self, sketch: SketchSpace, rows: Rows) -> dict[str, FloatArray]:
        """The decisions themselves: logarithms of factors, values of choices, locations."""
        found: dict[str, FloatArray] = {}
        for number, column in enumerate(sketch.columns):
            decided = column.table[rows[:, number]]
            if column.kind == "tile":
                logarithms = np.log2(decided)
                for level in range(decided.shape[1]):
                    found[f"{column.slot}/{level}"] = logarithms[:, level]
                if decided.shape[1] > 2:
                    found[f"{column.slot}/inner"] = logarithms[:, -2:].sum(axis=1)
            elif column.kind == "choice":
                found[column.slot] = np.log2(np.abs(np.array(column.values)[decided[:, 0]]) + 1)
            else:
                found[column.slot] = decided[:, 0].astype(np.float64)
        return found

    def _all_names(self) -> tuple[str, ...]:
        names: dict[str, None] = {"estimate": None}
        for number, sketch in enumerate(self._sketches):
            one = sketch.sample(np.random.default_rng(0), 1)
            names.update(dict.fromkeys(self._decided(sketch, one)))
            names.update(dict.fromkeys(self._structure[number]))
            for place, cost in enumerate(self._costs(number, one)[:NESTS]):
                names.update(dict.fromkeys(f"loops{place}.{name}" for name in cost.named))
        return tuple(names)


def _structure(sketch: SketchSpace) -> dict[str, float]:
    """Features that distinguish sketches: counts of each kind of instruction, and the loops that contain blocks."""
    found: dict[str, float] = {"sketch": float(sketch.number)}
    outputs = {name: place for step in sketch.steps.instructions for place, name in enumerate(step.outputs)}
    for step in sketch.steps.instructions:
        if step.kind in {"CacheWrite", "CacheRead", "RFactor", "ComputeInline", "ReverseComputeInline"}:
            found[f"count:{step.kind}"] = found.get(f"count:{step.kind}", 0.0) + 1
        if step.kind == "ReverseComputeAt":
            found["level:ReverseComputeAt"] = float(outputs.get(str(step.inputs[1]), 0))
    return found
