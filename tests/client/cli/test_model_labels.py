"""Options of a model survive in the labels of its job."""

from dataclasses import replace

from tunefarm.model.sizes.wanted_buckets import wanted_buckets
from tunefarm.options.model_options import SIZES_LABEL, ModelOptions


def test_buckets_are_kept_with_the_sizes_that_were_chosen() -> None:
    buckets = wanted_buckets(["batch=1..16", "x.1,y.1=8,4"], ["mask=0"], 3)
    options = replace(ModelOptions(), buckets=buckets)
    assert ModelOptions.of_labels(options.labels) == options
    chosen = {**options.labels, SIZES_LABEL: '{"batch": [2, 16], "x.1,y.1": [4, 8]}'}
    kept = ModelOptions.of_labels(chosen).buckets
    assert kept is not None
    assert [each.sizes for each in kept.dimensions] == [(2, 16), (4, 8)]
    assert kept.padding == {"mask": 0.0}
