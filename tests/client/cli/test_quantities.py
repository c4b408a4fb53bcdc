import pytest

from tunefarm_schemas.views.quantities import bytes_text, duration_text, failures_text, latency_text, ratio_text


@pytest.mark.parametrize(
    ("latency_s", "text"), [(None, "-"), (5e-7, "500 ns"), (1.5e-5, "15 us"), (0.002, "2 ms"), (3.25, "3.25 s")]
)
def test_latency_text_selects_unit(latency_s: float | None, text: str) -> None:
    assert latency_text(latency_s) == text


def test_duration_text_formats_hours_minutes_seconds() -> None:
    assert [duration_text(seconds) for seconds in (None, 0, 61, 3661)] == ["-", "0:00", "1:01", "1:01:01"]


def test_ratio_text_requires_both_values() -> None:
    assert (ratio_text(2.0, 1.0), ratio_text(None, 1.0), ratio_text(1.0, None)) == ("2x", "-", "-")


def test_failures_text_sorts_by_frequency() -> None:
    assert failures_text({"crash": 1, "run_timeout": 2}) == "3 (run_timeout 2, crash 1)"
    assert failures_text({}) == "0"


def test_bytes_text_uses_binary_units() -> None:
    assert (bytes_text(10), bytes_text(2048), bytes_text(3 << 30)) == ("10 B", "2 KiB", "3 GiB")
