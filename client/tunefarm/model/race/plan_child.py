"""Cuts a prepared model by plans, in the child that prepared it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm.frontend.weights_file import places_of_weights, write_weights
from tunefarm.model.messages import UnitParts
from tunefarm.model.model_folder import WEIGHTS_NAME
from tunefarm.model.race.messages import PlanOrder, PlanParts, RegionParts
from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.refusal import Refusal
from tunefarm_search.relax.library_regions.cutting import Region, cut
from tunefarm_search.relax.library_regions.units import units_of
from tunefarm_search.relax.lowering import lower
from tunefarm_search.relax.onnx_graph import OnnxRegion, onnx_model, place_weights, unsupported
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.relax.tasks import calls_per_run
from tunefarm_search.relax.weights import LiftedConstants, LiftedModel, lift_weights
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line

Array = npt.NDArray[Any]


class PlanServer:
    """Answers ``PlanOrder`` until the channel ends."""

    def __init__(self, prepared: PreparedModel, all_weights: int, final_weights: int, folder: str) -> None:
        """``all_weights`` gets those of any plan, once; ``final_weights`` those of the final plan."""
        self._prepared = prepared
        self._units = units_of(prepared, unsupported)
        self._all_weights = all_weights
        self._final_weights = final_weights
        self._program = f"{folder}/plan.vm"
        self._constants = LiftedConstants()
        self._offsets: Mapping[str, int] | None = None
        self._names: Mapping[str, str] = {}

    def units(self) -> tuple[UnitParts, ...]:
        """What a plan assigns libraries to."""
        return tuple(
            UnitParts(functions=unit.functions, operators=len(unit.operators), problem=unit.problem)
            for unit in self._units
        )

    def serve(self, channel: Channel) -> None:
        """Answer each order with ``PlanParts``, bytecode and ONNX models, or with a refusal."""
        while True:
            try:
                order = PlanOrder.model_validate_json(channel.receive())
            except ChannelClosed:
                return
            try:
                parts, contents = self._answered(order)
            except BadInput as error:
                channel.send(Refusal.of(error).model_dump_json().encode())
                continue
            except (*TVM_ERRORS, KeyError) as error:
                refused = BadInput("model", f"it cannot be cut: {last_line(error)}", "Compile it with --no-libraries.")
                channel.send(Refusal.of(refused).model_dump_json().encode())
                continue
            channel.send(parts.model_dump_json().encode())
            for content in contents:
                channel.send(content)

    def _answered(self, order: PlanOrder) -> tuple[PlanParts, list[bytes]]:
        if self._offsets is None:
            self._offsets = self._all_written()
        model = cut(self._prepared, self._units, order.assignment, by_unit=order.by_unit)
        lifted = self._lifted(model.prepared)
        exported = [onnx_model(region.function, WEIGHTS_NAME) for region in model.regions]
        offsets = self._written(self._final_weights, lifted, exported) if order.is_final else self._offsets
        lowered = lower(lifted.module, self._prepared.target)
        lowered.program.write_to_file(self._program, "")
        with open(self._program, "rb") as file:  # noqa: PTH123 - its own file
            program = file.read()
        parts = PlanParts(
            regions=tuple(
                RegionParts(name=each.name, library=each.library, operators=each.operators, units=each.units)
                for each in model.regions
            ),
            calls=_summed(calls_per_run(model.prepared)),
            entry_weights=lifted.of_entries,
            updated_inputs=lowered.updated_inputs,
        )
        placed = [_placed(region, made, offsets) for region, made in zip(model.regions, exported, strict=True)]
        return parts, [program, *placed]

    def _all_written(self) -> Mapping[str, int]:
        """Write the weights of our kernels alone and of libraries for all that they can run: no plan has others."""
        ours = self._lifted(self._prepared)
        theirs = cut(self._prepared, self._units, [None if unit.problem else "any" for unit in self._units])
        exported = [onnx_model(region.function, WEIGHTS_NAME) for region in theirs.regions]
        self._names = _shared_names(ours.weights, [weights for each in exported for weights in each.weights.items()])
        return self._written(self._all_weights, ours, exported)

    def _lifted(self, model: PreparedModel) -> LiftedModel:
        lifted = lift_weights(model.module, [entry.name for entry in model.entries], self._constants)
        of_entries = {
            entry: tuple(self._names.get(each, each) for each in own) for entry, own in lifted.of_entries.items()
        }
        return LiftedModel(lifted.module, lifted.weights, of_entries)

    def _written(self, descriptor: int, lifted: LiftedModel, regions: Sequence[OnnxRegion]) -> Mapping[str, int]:
        used = {name for own in lifted.of_entries.values() for name in own}
        weights: dict[str, Array] = {}
        for name, array in lifted.weights.items():
            shared = self._names.get(name, name)
            if name in used or shared in used:
                weights[shared] = array
        for region in regions:
            weights |= region.weights
        write_weights(descriptor, weights)
        return places_of_weights(descriptor)


def _placed(region: Region, made: OnnxRegion, offsets: Mapping[str, int]) -> bytes:
    if made.weights.keys() <= offsets.keys():
        return place_weights(made, offsets)
    return onnx_model(region.function, None).model  # a part of a weight that no other plan has


def _shared_names(ours: Mapping[str, Array], theirs: Sequence[tuple[str, Array]]) -> dict[str, str]:
    """The names that regions have for the same contents, so that a weight of both is stored once."""
    by_type: dict[tuple[Any, ...], list[tuple[str, Array]]] = {}
    for name, array in theirs:
        by_type.setdefault((array.dtype, array.shape), []).append((name, array))
    found: dict[str, str] = {}
    for name, array in ours.items():
        for other, contents in by_type.get((array.dtype, array.shape), ()):
            if np.array_equal(array.reshape(-1).view("uint8"), contents.reshape(-1).view("uint8")):
                found[name] = other
                break
    return found


def _summed(calls: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for own in calls.values():
        for name, count in own.items():
            found[name] = found.get(name, 0) + count
    return found
