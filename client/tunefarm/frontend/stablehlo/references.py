"""What XLA computes for random inputs of a model that JAX exported, to compare a compiled one with."""

from typing import Any

import numpy as np

from tunefarm.frontend.random_inputs import Array, framework_inputs
from tunefarm.frontend.relax_model import ModelReference


def references_of(data: bytes, module: Any) -> tuple[ModelReference, ...]:
    """Results for three inputs; none if JAX cannot run the export here, such as one for a GPU.

    Args:
        data: a serialized ``jax.export.Exported``, all operators of which have a conversion: it calls no others.
        module: the Relax module that it was converted to.
    """
    import jax
    from jax import export

    try:
        exported = export.deserialize(bytearray(data))
        kept = exported.module_kept_var_idx

        def outputs(inputs: list[Array]) -> tuple[Array, ...]:
            given: dict[int, Any] = dict(zip(kept, inputs, strict=True))
            leaves = [given.get(at, np.zeros(each.shape, each.dtype)) for at, each in enumerate(exported.in_avals)]
            arguments, keywords = jax.tree.unflatten(exported.in_tree, leaves)
            return tuple(np.asarray(each) for each in jax.tree.leaves(exported.call(*arguments, **keywords)))

        sets = framework_inputs(module)
        return tuple(ModelReference("main", tuple(inputs), outputs(inputs)) for inputs in sets)
    except Exception:  # noqa: BLE001 - such as a type that JAX has only where it is enabled
        return ()
