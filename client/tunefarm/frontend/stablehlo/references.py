"""What XLA computes for random inputs of a model that JAX exported, to compare a compiled one with."""

from typing import Any

import numpy as np

from tunefarm.frontend.random_inputs import Array, Run, framework_results
from tunefarm.frontend.relax_model import ModelReference


def references_of(data: bytes, module: Any) -> tuple[ModelReference, ...]:
    """Results for three inputs; none if JAX cannot run the export here, such as one for a GPU.

    Args:
        data: a serialized ``jax.export.Exported``, all operators of which have a conversion: it calls no others.
        module: the Relax module that it was converted to.
    """
    return framework_results(module, lambda: _run(data))


def _run(data: bytes) -> Run:
    import jax
    from jax import export

    exported = export.deserialize(bytearray(data))
    kept = exported.module_kept_var_idx

    def run(inputs: list[Array]) -> tuple[Array, ...]:
        given: dict[int, Any] = dict(zip(kept, inputs, strict=True))
        leaves = [given.get(at, np.zeros(each.shape, each.dtype)) for at, each in enumerate(exported.in_avals)]
        arguments, keywords = jax.tree.unflatten(exported.in_tree, leaves)
        return tuple(np.asarray(each) for each in jax.tree.leaves(exported.call(*arguments, **keywords)))

    return run
