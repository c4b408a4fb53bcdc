"""Options of models: parsed, kept for --resume, and rejected where they do not apply."""

from pathlib import Path

import pytest

from tunefarm.options.model_options import ModelOptions
from tunefarm_schemas.bad_input import BadInput


def test_options_are_kept_in_the_labels_of_a_job(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text("")
    options = ModelOptions.of_texts(["x=1,3", "lengths=8"], str(file), traced=True)
    assert (dict(options.shapes), options.functions_file) == ({"x": (1, 3), "lengths": (8,)}, file)
    assert ModelOptions.of_labels({"module": "net.py:net", **options.labels}) == options
    file.unlink()
    with pytest.raises(BadInput, match="does not exist"):
        ModelOptions.of_labels(options.labels)


def test_job_without_options_has_no_label_for_them() -> None:
    assert ModelOptions.of_texts(None, None, traced=False).labels == {}
    assert ModelOptions.of_labels({"module": "net.onnx"}) == ModelOptions()


@pytest.mark.parametrize(
    ("options", "by_frontend", "is_model", "field"),
    [
        (ModelOptions({"x": (1,)}), False, True, "shape"),
        (ModelOptions(is_traced=True), False, True, "traced"),
        (ModelOptions(functions_file=Path("f.py")), False, False, "functions"),
        (ModelOptions(functions_file=Path("f.py")), False, True, None),
        (ModelOptions({"x": (1,)}, is_traced=True), True, True, None),
    ],
)
def test_option_is_rejected_where_nothing_reads_it(
    options: ModelOptions, by_frontend: bool, is_model: bool, field: str | None
) -> None:
    if field is None:
        options.require_read(by_frontend=by_frontend, is_model=is_model)
        return
    with pytest.raises(BadInput) as refused:
        options.require_read(by_frontend=by_frontend, is_model=is_model)
    assert refused.value.field == field
