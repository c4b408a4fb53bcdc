"""``--device-class`` accepts the abbreviated ids of ``devices list``."""

import pytest

from tunefarm.options.device_class_option import device_class_of_text
from tunefarm_schemas.bad_input import BadInput

FIRST, SECOND = "ab" * 32, "ac" * 32


@pytest.mark.parametrize(
    ("text", "found"), [("ab", FIRST), ("acac", SECOND), (FIRST, FIRST), ("f" * 64, "f" * 64), ("other", "other")]
)
def test_device_class_is_found_by_prefix(text: str, found: str) -> None:
    assert device_class_of_text(text, [FIRST, SECOND, FIRST]) == found


def test_ambiguous_device_class_prefix_is_rejected() -> None:
    with pytest.raises(BadInput, match="2 classes begin with 'a'") as refused:
        device_class_of_text("a", [FIRST, SECOND])
    assert refused.value.field == "device_class_id"
