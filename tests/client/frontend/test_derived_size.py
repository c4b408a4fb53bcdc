"""Names of dimensions that are arithmetic of others."""

import pytest

from tunefarm.frontend.derived_size import derived_size

SIZES = {"past_length": 7, "length": 3}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("length", 3),
        ("past_length + length", 10),
        ("past_length+1", 8),
        ("2*length - 1", 5),
        ("(past_length + 1) // 4", 2),
        ("length - past_length", None),  # not positive
        ("past_length // 0", None),
        ("past_length ** 2", None),
        ("past_length / 2", None),
        ("other + 1", None),
        ("", None),
        ("a b", None),
        ("length.__class__", None),
        ("length()", None),
        ("+".join(["length"] * 200), None),
    ],
)
def test_a_size_follows_from_the_name_or_is_unknown(name: str, size: int | None) -> None:
    assert derived_size(name, SIZES) == size
