"""``--device-class`` takes what ``devices list`` shows."""

import pytest

from tunefarm.options.device_class_option import device_class_of_text
from tunefarm_schemas.bad_input import BadInput

FIRST, SECOND = "ab" * 32, "ac" * 32


@pytest.mark.parametrize(
    ("text", "found"), [("ab", FIRST), ("acac", SECOND), (FIRST, FIRST), ("f" * 64, "f" * 64), ("other", "other")]
)
def test_a_class_is_known_by_its_first_characters(text: str, found: str) -> None:
    assert device_class_of_text(text, [FIRST, SECOND, FIRST]) == found


def test_characters_that_several_classes_begin_with_name_none() -> None:
    with pytest.raises(BadInput, match="2 classes begin with 'a'") as refused:
        device_class_of_text("a", [FIRST, SECOND])
    assert refused.value.field == "device_class_id"
