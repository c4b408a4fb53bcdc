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

from benchmarks.models.compare import write_expected  # noqa: E402
from benchmarks.models.model_files import FORMATS, model_file  # noqa: E402
from benchmarks.models.rival_process import ProcessOrder  # noqa: E402
from benchmarks.models.rival_turns import time_by_turns  # noqa: E402
from benchmarks.models.rivals import ZERO_TRIALS  # noqa: E402
from benchmarks.models.zoo import TINY_ZOO  # noqa: E402

ROUNDS = 3


@pytest.mark.parametrize("name", ["bert", "lstm"])
def test_rivals_give_the_results_of_torch_and_a_sample_of_each_round(name: str, tmp_path: Path) -> None:
    model = TINY_ZOO[name]
    for file_format in FORMATS:
        model_file(model, file_format, tmp_path)
    write_expected(model, tmp_path)
    rivals = ("torch-eager", "onnxruntime", "openvino", "tvm-unscheduled", ZERO_TRIALS)
    nothing = str(tmp_path / "nothing")
    results = time_by_turns(
        [
            ProcessOrder(model=name, tiny=True, rival=rival, files=str(tmp_path), artifact=nothing, threads=2)
            for rival in rivals
        ],
        ROUNDS,
        processes=2,
    )
    *timed, failed = results
    assert [result.rival for result in timed] == list(rivals[:-1])
    for result in timed:
        assert result.ready is not None, result.failure
        assert result.ready.error <= model.tolerance
        assert len(result.seconds) == (1 if result.ready.once else ROUNDS)
        assert result.ready.once or all(sample.calls > 1 for sample in result.samples), "a call of milliseconds"
    assert failed.ready is None
    assert failed.failure is not None
    assert "nothing" in failed.failure
