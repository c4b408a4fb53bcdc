"""Records that must be measured again before they are used."""

import pytest

from tests.store.sample import record
from tunefarm_schemas.tuning.record import BUSY, RecordStatus


@pytest.mark.parametrize(
    ("foreign_load", "interval_s", "is_doubtful"),
    [
        pytest.param(0.0, (1e-4, 3e-4), False, id="no other load, at any distance of the processes"),
        pytest.param(BUSY, (1e-4, 1.01e-4), True, id="others were there"),
        pytest.param(None, (1e-4, 1.2e-4), False, id="not known, and close together"),
        pytest.param(None, (1.5e-4, 2.94e-4), True, id="not known, and far apart"),
        pytest.param(None, None, False, id="nothing is known"),
    ],
)
def test_record_measured_under_load_is_doubtful(
    foreign_load: float | None, interval_s: tuple[float, float] | None, is_doubtful: bool
) -> None:
    taken = record("0e", 1e-4).model_copy(update={"foreign_load": foreign_load, "interval_s": interval_s})
    assert taken.is_doubtful is is_doubtful


def test_claim_is_never_measured_again_for_its_interval() -> None:
    claimed = record("0e", 1e-4).model_copy(update={"status": RecordStatus.CLAIMED, "interval_s": (1e-4, 9e-4)})
    assert not claimed.is_doubtful
