"""The options of dynamic dimensions."""

import pytest

from tunefarm.model.sizes.wanted_buckets import MAX_COMBINATIONS, parse_bucket, wanted_buckets
from tunefarm_schemas.bad_input import BadInput


def test_parse_bucket_reads_sizes_and_ranges() -> None:
    assert parse_bucket("batch=8,1,8").sizes == (1, 8)
    several = parse_bucket("ids.1,mask.1=4..64")
    assert (several.places, several.low, several.high, several.is_range) == (("ids.1", "mask.1"), 4, 64, True)


@pytest.mark.parametrize(
    "text",
    ["batch", "=1", "batch=", "batch=0", "batch=1,x", "batch=8..4", "batch=1..2..3", "a,=1", "n=1..100000", "n=-1"],
)
def test_parse_bucket_refuses_other_text(text: str) -> None:
    with pytest.raises(BadInput, match="bucket"):
        parse_bucket(text)


def test_wanted_buckets_bounds_the_number_of_entries() -> None:
    assert wanted_buckets([]) is None
    assert wanted_buckets(["a=1..100", "b=1..100"], max_buckets=8) is not None
    with pytest.raises(BadInput, match=f"at most {MAX_COMBINATIONS} combinations"):
        wanted_buckets(["a=1..100", "b=1..100", "c=1,2"])


@pytest.mark.parametrize(
    ("buckets", "padding", "is_exact", "field"),
    [
        ([], ["mask=0"], False, "pad"),
        ([], [], True, "exact_buckets"),
        (["a=1..8"], [], True, "bucket"),
        (["a=1"], ["m=0"], True, "pad"),
        (["a=1", "a=2"], [], False, "bucket"),
        (["a=1"], ["m"], False, "pad"),
        (["a=1"], ["m=nan"], False, "pad"),
    ],
)
def test_wanted_buckets_refuses_contradictions(
    buckets: list[str], padding: list[str], is_exact: bool, field: str
) -> None:
    with pytest.raises(BadInput, match=field):
        wanted_buckets(buckets, padding, is_exact=is_exact)
