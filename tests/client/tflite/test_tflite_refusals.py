"""TFLite files that cannot be used are refused with what is wrong and what to do."""

from pathlib import Path

import numpy as np
import pytest

from tests.client.tflite.model_builder import NONE, ModelBuilder, options
from tests.client.tflite.test_tflite_models import mobile_network
from tunefarm.frontend.tflite.reading import import_tflite
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models


def saved(folder: Path, content: bytes) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return path


def content() -> bytes:
    model, result = mobile_network()
    return model.content(result)


@pytest.mark.parametrize("text", [b"", b"no model", b"\x08\x00\x00\x00ONNX" + bytes(64)])
def test_import_tflite_refuses_other_files(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(BadInput, match="not a TFLite model"):
        import_tflite(saved(tmp_path, text), {})


def test_import_tflite_refuses_what_is_not_a_regular_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a regular file"):
        import_tflite(tmp_path, {})
    with pytest.raises(BadInput, match="No such file"):
        import_tflite(tmp_path / "missing.tflite", {})


def test_import_tflite_refuses_a_truncated_file(tmp_path: Path) -> None:
    whole = content()
    for length in range(8, len(whole) - 64, len(whole) // 40):
        with pytest.raises(BadInput):
            import_tflite(saved(tmp_path, whole[:length]), {})


def test_import_tflite_survives_damaged_tables(tmp_path: Path) -> None:
    """A change may leave a model that can be converted; whatever else it leaves is a clear refusal."""
    whole = np.frombuffer(content(), np.uint8)
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = whole.copy()
        place = generator.integers(8, len(whole) - 4)
        damaged[place : place + 4] = 255
        try:
            import_tflite(saved(tmp_path, damaged.tobytes()), {})
        except BadInput:
            refused += 1
    assert refused


def test_import_tflite_names_all_unsupported_operators(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, values = model.input((2, 3)), [model.tensor((2, 3)) for _ in range(3)]
    model.operator("CUSTOM", [x], [values[0]], custom="FlexErfinv")
    model.operator("ABS", [values[0]], [values[1]], options("AbsOptions"))
    model.operator("CUSTOM", [values[1]], [values[2]], custom="Secret")
    with pytest.raises(BadInput) as refused:
        import_tflite(model.save(tmp_path, values[2]), {})
    assert "2 nodes" in refused.value.problem
    assert "CUSTOM FlexErfinv at operator 0 (float32[2, 3])" in refused.value.problem
    assert "CUSTOM Secret at operator 2 (float32[2, 3])" in refused.value.problem
    assert "built-in operators" in refused.value.fix


def test_import_tflite_refuses_quantised_operands_of_float_operators(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, result = model.input((1, 4)), model.tensor((1, 4))
    weight = model.weight(np.ones((1, 4), np.int8), scale=0.1)
    model.operator("MUL", [x, weight], [result], options("MulOptions", fusedActivationFunction=NONE))
    with pytest.raises(BadInput, match="quantised alone"):
        import_tflite(model.save(tmp_path, result), {})


def test_import_tflite_refuses_a_weight_of_the_wrong_size(tmp_path: Path) -> None:
    model, result = mobile_network()
    model.graph.tensors[2].shape = [16, 3, 3, 4]
    with pytest.raises(BadInput, match=r"stem/kernel of shape \(16, 3, 3, 4\) has 1728 bytes instead of 2304"):
        import_tflite(model.save(tmp_path, result), {})


def test_import_tflite_refuses_an_operand_that_nothing_computes(tmp_path: Path) -> None:
    model = ModelBuilder()
    model.input((2,))
    missing, result = model.tensor((2,), name="ghost"), model.tensor((2,))
    model.operator("ABS", [missing], [result], options("AbsOptions"))
    with pytest.raises(BadInput, match="ghost"):
        import_tflite(model.save(tmp_path, result), {})


def test_import_tflite_refuses_other_shapes_than_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, content())
    with pytest.raises(BadInput, match=r"has the shape \(1, 15, 16, 3\) in the file"):
        import_tflite(path, {"input_0": (2, 15, 16, 3)})
    with pytest.raises(BadInput, match=r"no input image\. Its inputs are input_0"):
        import_tflite(path, {"image": (1, 15, 16, 3)})
    assert import_tflite(path, {"input_0": (1, 15, 16, 3)}).notes == ()


def test_import_tflite_notes_open_dimensions(tmp_path: Path) -> None:
    model, result = mobile_network()
    model.graph.tensors[0].shapeSignature = [-1, 15, 16, 3]
    imported = import_tflite(model.save(tmp_path, result), {})
    assert imported.notes == ("Dimension 0 of input input_0 is 1, as in the file.",)
