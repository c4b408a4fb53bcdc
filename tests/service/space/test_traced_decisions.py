"""Decisions read from stored traces, honest and hostile ones."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunefarm_schemas.frozen import canonical_json
from tunefarm_services.space.traced_decisions import MAX_DECISIONS, MAX_SKETCHES, TraceReader

STEPS = [
    ["GetSBlock", [], ["product", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2"]],
    ["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]],
    ["Split", ["l1", "v3", "v4"], [True, False], ["l5", "l6"]],
    ["GetConsumers", ["b0"], [], ["b7"]],
    ["SampleComputeLocation", ["b7"], [], ["l8"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v9"]],
    ["Annotate", ["b0", "v9"], ["meta_schedule.unroll_explicit"], []],
]
DECISIONS = [[2, [4, 8]], [5, -1], [6, 2]]
POSTPROCESSING = [["EnterPostproc", [], [], []], ["Unannotate", ["b0"], ["meta_schedule.parallel"], []]]


def text(steps: object, decisions: object = DECISIONS) -> str:
    return canonical_json([steps, decisions])


def test_decisions_are_named_by_blocks_loops_and_annotations() -> None:
    read = TraceReader().read(text(STEPS + POSTPROCESSING))
    assert read is not None
    assert read.decisions == ((4, 8), (-1,), (2,))
    assert [(place.kind, place.subject) for place in read.sketch] == [
        ("tile", "product, loop 0"),
        ("location", "consumer of product"),
        ("choice", "unroll_explicit"),
    ]
    assert read.sketch[2].choices == (0.0, 16.0, 64.0)


def test_traces_that_differ_in_postprocessing_are_of_one_sketch() -> None:
    reader = TraceReader()
    one = reader.read(text(STEPS + POSTPROCESSING))
    other = reader.read(text([*STEPS, POSTPROCESSING[0]], [[2, [8, 4]], [5, 1], [6, 0]]))
    third = reader.read(text([*STEPS[1:], POSTPROCESSING[0]], [[1, [4, 8]], [4, -1], [5, 2]]))
    assert one is not None
    assert other is not None
    assert third is not None
    assert one.sketch_text == other.sketch_text != third.sketch_text


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "null",
        "[" * 100_000,
        '{"a":1}',
        "[[],[[2,[4,8]]],[]]",
        text(STEPS, []),
        text(STEPS, [[2, [4, 8, 1]], [5, -1], [6, 2]]),
        text(STEPS, [[2, ["__import__('os')", 8]], [5, -1], [6, 2]]),
        text(STEPS, [[2, [2**80, 8]], [5, -1], [6, 2]]),
        text(STEPS, [[2, list(range(10_000))], [5, -1], [6, 2]]),
        text([["SamplePerfectTile", [], [], ["v"] * 9]], [[0, [1] * 9]]),
        text([["SampleCategorical", [], [list(range(1000))], ["v"]]], [[0, 1]]),
        text([["SampleCategorical", [], ["words"], ["v"]]], [[0, 1]]),
        text([["SampleComputeLocation", ["b0"], [], ["v"]]] * (MAX_DECISIONS + 1), [[n, 1] for n in range(100)]),
        text([["SamplePerfectTile"]]),
        '[[["SampleCategorical",[],[[NaN],[1]],["v"]]],[[0,0]]]',
    ],
)
def test_hostile_text_is_not_read(hostile: str) -> None:
    assert TraceReader().read(hostile) is None


def test_names_are_short_and_visible() -> None:
    steps, _ = json.loads(text(STEPS))
    steps[0][2][0] = "\x1b[2J" + "x" * 10_000
    read = TraceReader().read(text(steps))
    assert read is not None
    assert all("\x1b" not in place.subject and len(place.subject) <= 60 for place in read.sketch)


def test_names_do_not_grow_with_the_length_of_a_chain() -> None:
    steps = [["GetConsumers", [f"b{n}"], [], [f"b{n + 1}"]] for n in range(3_000)]
    read = TraceReader().read(text([*steps, ["SampleComputeLocation", ["b3000"], [], ["l"]]], [[3_000, 0]]))
    assert read is not None
    assert len(read.sketch[0].subject) <= 60


def test_the_number_of_sketches_is_bounded() -> None:
    reader = TraceReader()
    found = [reader.read(text([["GetSBlock", [], [f"block {n}"], ["b"]], *STEPS[1:]])) for n in range(MAX_SKETCHES + 5)]
    assert [each is None for each in found] == [False] * MAX_SKETCHES + [True] * 5


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda c: st.lists(c, max_size=4)))
@settings(max_examples=50)
def test_any_value_is_read_or_left_out(value: object) -> None:
    TraceReader().read(json.dumps([value, DECISIONS]))
    TraceReader().read(json.dumps([STEPS, value]))
    TraceReader().read(json.dumps(value))
