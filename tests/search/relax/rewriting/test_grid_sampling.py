"""Images are sampled at the points of a grid with the channels last, as TVM's operator samples them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax import preparation
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)
INPUTS = random_array(2, 5, 4, 6), 0.8 * random_array(2, 2, 7, 3)


def prepared_sampling(padding: str, align_corners: bool, images: tuple[int, ...] = (2, 5, 4, 6)) -> PreparedModel:
    def build(_builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        options = {"method": "bilinear", "layout": "NCHW", "padding_mode": padding, "align_corners": align_corners}
        return relax.op.image.grid_sample(given[0], given[1], **options)

    return prepare(one_entry(build, [images, INPUTS[1].shape], ()), {"main": ()}, HERE)


@pytest.mark.parametrize("padding", ["zeros", "reflection", "border"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.quick_cases(2)
def test_samples_are_those_of_the_given_layout(
    padding: str, align_corners: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = result_of(prepared_sampling(padding, align_corners), INPUTS)
    monkeypatch.setattr(preparation, "with_channels_last", lambda module: module)
    expected = result_of(prepared_sampling(padding, align_corners), INPUTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)  # type: ignore[call-overload]


def test_points_that_are_no_numbers_read_no_other_memory() -> None:
    points = np.resize(np.array([np.nan, np.inf, -np.inf, 1e30, 0.0], np.float32), INPUTS[1].shape)
    found = np.asarray(result_of(prepared_sampling("zeros", False), (INPUTS[0], points)))
    is_far = ~np.isfinite(points).all(axis=1) | (np.abs(points) > 2).any(axis=1)
    assert is_far.any()
    assert (found.transpose(0, 2, 3, 1)[is_far] == 0.0).all()


@pytest.mark.parametrize(("channels", "functions"), [(5, 5), (3, 1)])
def test_places_are_computed_once_for_all_channels(channels: int, functions: int) -> None:
    prepared = prepared_sampling("zeros", False, (2, channels, 4, 6))
    assert len(model_tasks(prepared)) == functions
