"""Validation of input specs."""

import pytest
from pydantic import ValidationError

from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec, example_name

DIGEST = "0a" * 32


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kind": "uniform"}, "needs low and high"),
        ({"kind": "uniform", "low": 1.0, "high": 1.0}, "less than"),
        ({"kind": "uniform", "low": 0.0, "high": float("inf")}, "finite"),
        ({"kind": "integers", "low": 0.5, "high": 3.0}, "whole"),
        ({"kind": "normal", "low": 0.0, "high": 1.0}, "neither"),
        ({"kind": "example"}, "digest"),
        ({"kind": "normal", "example_digest": DIGEST}, "digest"),
        ({"kind": "example", "example_digest": "../../etc/passwd"}, "pattern"),
        ({"kind": "constant"}, "kind"),
    ],
)
def test_inconsistent_spec_is_rejected(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        InputSpec.model_validate({"argument": "A", **fields})


def test_example_name_and_content_round_trip() -> None:
    example = InputExample(content=bytes(range(256)))
    assert InputExample.model_validate_json(example.model_dump_json()) == example
    assert example_name(example.example_digest).startswith("example-")
    with pytest.raises(ValueError, match="digest"):
        example_name("../x")


def test_input_spec_text_matches_option() -> None:
    assert InputSpec(argument="A", kind="uniform", low=0.0, high=0.5).text == "A=uniform:0:0.5"
    assert InputSpec(argument="A", kind="positive").text == "A=positive"
