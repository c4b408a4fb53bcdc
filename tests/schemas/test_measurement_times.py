"""Impossible times are rejected when a message is parsed."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.schemas.nouns import NOUNS
from tunefarm_schemas.farm.farm_message import ExportEnded, Measured, reply
from tunefarm_schemas.farm.order_link import parsed_reply
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Exported, Stopped, Timing
from tunefarm_workers.compile.compile_messages import CompileSucceeded
from tunefarm_workers.conversation.messages import Built, Ran, ReferenceTimed
from tunefarm_workers.session.device.session_messages import LibraryBuilt, SessionRan

IMPOSSIBLE = ("NaN", "Infinity", "-Infinity", "-1.0", "1e300")
EXPORTED = next(noun for noun in NOUNS if isinstance(noun, ExportEnded)).model_copy(update={"failure": None})
MEASURED = next(noun for noun in NOUNS if isinstance(noun, Measured))


@pytest.mark.parametrize("seconds", [*IMPOSSIBLE, "0.0"])
@pytest.mark.parametrize(
    ("noun", "text"),
    [
        (Timing, '{{"latency_s": {0}, "samples_s": []}}'),
        (Timing, '{{"latency_s": 1.0, "samples_s": [1.0, {0}]}}'),
        (Stopped, '{{"at_least_s": {0}}}'),
        (Exported, '{{"library": "", "entry": "main", "process_latencies_s": [1.0, {0}]}}'),
    ],
)
def test_nonpositive_time_is_rejected(noun: type[Timing | Stopped | Exported], text: str, seconds: str) -> None:
    with pytest.raises(ValidationError):
        noun.model_validate_json(text.format(seconds))


@pytest.mark.parametrize("latency_s", [0.5, 4.0])
def test_latency_must_be_the_median_of_samples(latency_s: float) -> None:
    with pytest.raises(ValidationError, match="latency_s is not the median of samples_s"):
        Timing(latency_s=latency_s, samples_s=(1.0, 2.0, 3.0))


def is_malformed(answer: Frozen, place: str, value: Any) -> bool:
    """Whether a reply is malformed if it has ``value`` in ``place``, which names fields from the outermost on."""
    document: Any = json.loads(answer.model_dump_json())
    assert parsed_reply({b"m": json.dumps(document).encode()}, reply) == answer
    *outer, name = place.split(".")
    within = document
    for each in outer:
        within = within[each]
    assert name in within
    within[name] = value
    return parsed_reply({b"m": json.dumps(document).encode()}, reply) is None


@pytest.mark.parametrize("seconds", IMPOSSIBLE)
def test_reply_with_an_impossible_time_is_malformed(seconds: str) -> None:
    impossible = float(seconds)
    assert is_malformed(EXPORTED, "foreign_load", impossible)
    for latencies in ("process_latencies_s", "untuned_latencies_s"):
        assert is_malformed(EXPORTED, latencies, [0.5, impossible])
    for stage in ("start_s", "build_s", "wait_s", "run_s"):
        assert is_malformed(MEASURED, f"measurement.stages.{stage}", impossible)
    assert is_malformed(MEASURED, "measurement.untuned_about_s", impossible)


def test_reply_that_the_tuner_cannot_use_or_store_is_malformed() -> None:
    assert is_malformed(EXPORTED, "process_latencies_s", [])
    assert is_malformed(EXPORTED, "foreign_load", 1.5)
    assert is_malformed(MEASURED, "measurement.device_fingerprint", "a\0b")


@pytest.mark.parametrize("seconds", IMPOSSIBLE)
@pytest.mark.parametrize(
    ("noun", "field"),
    [
        (Built, "build_s"),
        (LibraryBuilt, "build_s"),
        (CompileSucceeded, "build_s"),
        (Ran, "run_s"),
        (ReferenceTimed, "latency_s"),
        (SessionRan, "run_s"),
    ],
)
def test_elapsed_time_from_a_child_is_possible(noun: type[Frozen], field: str, seconds: str) -> None:
    with pytest.raises(ValidationError) as refused:
        noun.model_validate_json(f'{{"{field}": {seconds}}}')
    assert (field,) in [error["loc"] for error in refused.value.errors()]
