import subprocess
import sys
from pathlib import Path

import pytest

# torch and its exporters warn about themselves.
pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

for package in ("torch", "onnx", "onnxruntime", "openvino"):
    pytest.importorskip(package)

from benchmarks.models.first_trials.chosen_functions import CHOSEN  # noqa: E402
from benchmarks.models.first_trials.trial_table import FirstTrialsTable  # noqa: E402
from benchmarks.models.model_result import ModelResult  # noqa: E402
from benchmarks.models.operators.operator_cases import OPERATORS  # noqa: E402

OPERATOR = "NRM"
RIVALS = ("zero-trials", "torch-eager", "onnxruntime", "openvino")


def run(module: str, *words: str) -> str:
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.models.{module}", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def test_rivals_of_an_operator_give_the_same_results_and_a_page(tmp_path: Path) -> None:
    words = ("--operators", OPERATOR, "--threads", "1", "--rounds", "2", "--rivals", *RIVALS)
    folders = ("--work", str(tmp_path / "work"), "--output", str(tmp_path / "output"))
    run("operators", *words, *folders)
    (path,) = (tmp_path / "output" / "raw").rglob("*.json")
    result = ModelResult.model_validate_json(path.read_text())
    assert all(result.is_equal(rival) for rival in RIVALS), result
    assert result.best_other() is not None
    assert f"| {OPERATOR} |" in (tmp_path / "output" / "operators.md").read_text()
    # What is there is not measured again.
    assert "1 of them measured before" in run("operators", *words, *folders)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_finite_outputs(name: str) -> None:
    module, inputs = OPERATORS[name].build()
    output = module(*inputs)
    assert bool(output.isfinite().all())
    assert float(output.abs().max()) > 0


def test_first_trials_are_recorded_in_the_order_of_the_search(tmp_path: Path) -> None:
    words = ("--functions", "mean", "--trials", "6", "--seeds", "1", "--seed-trials", "3")
    folders = ("--tables", str(tmp_path / "tables"), "--work", str(tmp_path / "work"))
    run("first_trials", "record", *words, *folders)
    table = FirstTrialsTable.read(tmp_path / "tables" / "mean.json.gz")
    assert [len(each.trials) for each in table.runs] == [6, 3]
    assert all(each.trials[0].origin == "untried" for each in table.runs)
    # A schedule has one latency in the table, whichever run tried it.
    assert len({each.trials[0].latency_s for each in table.runs}) == 1
    assert table.best_s <= min(each.best_s(1) for each in table.runs)
    measured = [trial for each in table.runs for trial in each.trials if trial.sketch is not None]
    replay = table.replay_table()
    assert len(replay.trials) == len({(trial.sketch, repr(trial.decisions)) for trial in measured})
    assert len(replay.traces()) == len(replay.trials)
    copied = tmp_path / "copy.json.gz"
    table.write(copied)
    assert copied.read_bytes() == (tmp_path / "tables" / "mean.json.gz").read_bytes()
    report = run("first_trials", "report", "--functions", "mean", *folders)
    assert report.splitlines()[-1].startswith("geometric mean")
    run("first_trials", "confirm", "--functions", "mean", *folders)
    confirmed = FirstTrialsTable.read(tmp_path / "tables" / "mean.json.gz")
    assert confirmed.runs == table.runs
    assert {(0, number) for number in table.runs[0].fastest(6, 6)} <= {(c.run, c.number) for c in confirmed.confirmed}
    assert all(each.latency_s > 0 for each in confirmed.confirmed)
    assert 0 < confirmed.share(1, 3) <= 1
    assert confirmed.share(0, 6) <= 1


@pytest.mark.faults
def test_models_have_the_functions_whose_first_trials_are_judged(tmp_path: Path) -> None:
    names = [chosen.name for chosen in CHOSEN]
    run("first_trials.chosen_functions", str(tmp_path), *names)
    assert {path.stem for path in tmp_path.glob("*.json")} == set(names)
