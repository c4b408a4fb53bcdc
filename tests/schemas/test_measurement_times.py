"""Impossible times are rejected when a message is parsed."""

import pytest
from pydantic import ValidationError

from tunefarm_schemas.tuning.measurement import Exported, Stopped, Timing


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-Infinity", "-1.0", "0.0"])
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
