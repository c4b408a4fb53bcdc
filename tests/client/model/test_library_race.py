"""Which plans a race tries, and what it ships."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.client.model.conftest import CompiledOnce
from tunefarm.model.library.region_opening import require_library, require_region
from tunefarm.model.loaded_model import load_model
from tunefarm.model.messages import UnitParts
from tunefarm.model.race.library_race import choose_libraries
from tunefarm.model.race.messages import RegionParts
from tunefarm.model.race.plan_folder import LibraryPlan
from tunefarm.model.race.proposals import proposals, unit_times
from tunefarm.model.race.race_result import RacedUnit, RaceResult, TimedPlan
from tunefarm.model.race.race_text import race_text
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.model import ModelManifest, ModelRegion

REGION = ModelRegion(
    name="tunefarm.region.0",
    library="nonesuch",
    requirement="nonesuch==1.0",
    spins=False,
    file="region-0.onnx",
    digest="0" * 64,
    operators=("nn.relu",),
)


def test_proposals_begin_with_the_piece_that_promises_most() -> None:
    times_s: Mapping[str | None, list[float]] = {None: [1.0, 1.0, 9.0, 1.0], "L": [3.0, 2.0, 1.0, 1.5]}
    found = proposals(("L", "L", "L", "L"), times_s)
    assert found[0] == (None, None, "L", "L")
    assert found[1:] == [(None, "L", "L", "L"), ("L", None, "L", "L"), ("L", "L", "L", None)]
    assert proposals((None, None, None, None), times_s) == [(None, None, "L", None)]


def test_proposals_give_no_unit_to_a_library_that_cannot_run_it() -> None:
    unknown = float("inf")
    times_s: Mapping[str | None, list[float]] = {None: [1.0, 5.0], "L": [unknown, 1.0], "M": [0.5, unknown]}
    assert set(proposals((None, None), times_s)) == {(None, "L"), ("M", None)}


def test_unit_times_are_those_of_its_functions_or_of_its_region() -> None:
    units = [
        UnitParts(functions=("f", "g"), operators=3, problem=""),
        UnitParts(functions=("f",), operators=1, problem="no"),
        UnitParts(functions=("h",), operators=1, problem=""),
    ]
    functions_s = {"f": 1.0, "g": 2.0, "h": 4.0, "tunefarm.region.0": 0.5, "tunefarm.region.1": 0.25}
    regions = [
        RegionParts(name=f"tunefarm.region.{number}", library="L", operators=(), units=(at,))
        for number, at in enumerate((0, 2))
    ]
    assert unit_times(units, None, (), functions_s) == [3.0, 1.0, 4.0]
    assert unit_times(units, "L", regions, functions_s) == [0.5, float("inf"), 0.25]


def test_race_text_names_the_plan_that_ships() -> None:
    ours, mixed = LibraryPlan((None, None, None)), LibraryPlan(("L", None, "L"))
    refused = TimedPlan(LibraryPlan(("onnxruntime",) * 3, spins=True), None, "it refuses")
    race = RaceResult(TimedPlan(mixed, 1e-3), (TimedPlan(ours, 2e-3), TimedPlan(mixed, 1e-3), refused), 3.0)
    lines = race_text(race).splitlines()
    assert lines[-1] == "ships: L 2, our kernels 1 of 3 functions, 2.00 times as fast as our kernels alone"
    assert lines[-2].endswith("onnxruntime, spinning: it refuses")
    assert lines[1].split() == ["2", "ms", "our", "kernels"]


def test_choose_libraries_rejects_unknown_names_and_times() -> None:
    with pytest.raises(BadInput, match="'nonesuch' is unknown"):
        choose_libraries(["nonesuch"])


def test_a_region_of_an_unknown_library_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown library 'nonesuch'"):
        require_library(REGION)


def test_the_file_of_a_region_may_be_as_large_as_a_program(tmp_path: Path) -> None:
    content = bytes(65 << 20)
    (tmp_path / REGION.file).write_bytes(content)
    require_region(tmp_path, REGION.model_copy(update={"digest": digest(content)}))


@pytest.mark.parametrize("changed", [{"file": "../region-0.onnx"}, {"file": "kernels.so"}, {"name": "env.relu"}])
def test_manifests_name_no_other_files_and_functions(changed: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ModelRegion.model_validate({**REGION.model_dump(), **changed})


def test_load_model_refuses_a_model_without_the_file_of_a_region(network: CompiledOnce, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in network.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    manifest = ModelManifest.model_validate_json((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(manifest.model_copy(update={"regions": (REGION,)}).model_dump_json())
    with pytest.raises(BadInput, match=r"its region-0.onnx cannot be read"):
        load_model(folder)
    (folder / "region-0.onnx").write_bytes(b"other")
    with pytest.raises(BadInput, match=r"region-0.onnx does not match"):
        load_model(folder)


def test_gain_is_relative_to_our_kernels() -> None:
    ours = TimedPlan(LibraryPlan((None,)), 2.0)
    race = RaceResult(TimedPlan(LibraryPlan(("L",)), 0.5), (ours,), 1.0)
    assert race.gain == 4.0
    assert replace(race, winner=ours).gain == 1.0


def test_figures_of_a_race_have_the_times_of_each_unit() -> None:
    ours = TimedPlan(LibraryPlan(("L",)), 2.0)
    unit = RacedUnit(("conv",), {"our kernels": 2e-3, "L": 1e-3}, "L")
    figures = RaceResult(ours, (ours,), 1.0, (unit,)).figures()
    assert figures["units"] == [{"functions": ["conv"], "times_s": {"our kernels": 2e-3, "L": 1e-3}, "runner": "L"}]
