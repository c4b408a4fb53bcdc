"""Operators that are known by a name of their own, and advice for those that have no conversion."""

from typing import Any, Final

IGNORED_CALLS: Final = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint"}
)
"""Custom calls that return their operand and say where it is to be kept."""
IGNORED_OPERATORS: Final = frozenset({"sdy.sharding_constraint", "mhlo.copy"})
"""Operators that return their operand."""
KNOWN_CALLS: Final = {
    "mhlo.acos": "chlo.acos", "mhlo.acosh": "chlo.acosh", "mhlo.asin": "chlo.asin", "mhlo.asinh": "chlo.asinh",
    "mhlo.atanh": "chlo.atanh", "mhlo.cosh": "chlo.cosh", "mhlo.erf": "chlo.erf", "mhlo.sinh": "chlo.sinh",
    "mhlo.tan": "stablehlo.tan", "mhlo.topk": "chlo.top_k",
}  # fmt: skip
"""Custom calls as which portable files store operators that StableHLO lacked."""

_RANDOM: Final = "Export the model for inference, without dropout, and pass random numbers as an input."
_ONE_DEVICE: Final = "Export the model for one device, without shardings and collectives."
_FORWARD: Final = "Export the forward pass for inference, without gradients."
_HOST: Final = "Export the model without callbacks, debug prints and transfers to the host."
_DYNAMIC: Final = "Export the model with shapes of constants, or name the sizes of its dynamic inputs."
_OUTSIDE: Final = "Compute this step outside of the model, before or after it."
ADVICE: Final = {
    "stablehlo.rng": _RANDOM,
    "stablehlo.rng_bit_generator": _RANDOM,
    "stablehlo.batch_norm_grad": _FORWARD,
    "stablehlo.select_and_scatter": _FORWARD,
    **dict.fromkeys(
        (
            "stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast",
            "stablehlo.collective_permute", "stablehlo.cross-replica-sum", "stablehlo.partition_id",
            "stablehlo.reduce_scatter", "stablehlo.replica_id", "sdy.manual_computation",
        ),
        _ONE_DEVICE,
    ),
    **dict.fromkeys(
        (
            "stablehlo.after_all", "stablehlo.create_token", "stablehlo.infeed", "stablehlo.outfeed",
            "stablehlo.recv", "stablehlo.send",
        ),
        _HOST,
    ),
    **dict.fromkeys(
        (
            "stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_conv", "stablehlo.dynamic_gather",
            "stablehlo.dynamic_iota", "stablehlo.dynamic_pad", "stablehlo.dynamic_reshape",
            "stablehlo.get_dimension_size", "stablehlo.real_dynamic_slice", "stablehlo.set_dimension_size",
        ),
        _DYNAMIC,
    ),
    "stablehlo.uniform_dequantize": "Export an int8 model from ONNX or TFLite.",
    "stablehlo.uniform_quantize": "Export an int8 model from ONNX or TFLite.",
}  # fmt: skip


def call_advice(target: str) -> str:
    """The way around a custom call of this name."""
    if "callback" in target or "debug" in target:
        return _HOST
    if target.startswith(("lapack", "blas", "cusolver", "ducc_fft", "Qr", "Eigh")):
        return _OUTSIDE
    if target == "shape_assertion":
        return _DYNAMIC
    return f"Replace the call of {target}, which is code of XLA's runtime, by operators of jax.numpy or jax.lax."


def composite_attribute(op: Any, name: str) -> int | None:
    """An integer attribute of a composite; None if it has none of that name."""
    for place in ("composite_attributes", "mhlo.attributes"):
        if place in op.attributes and name in op.attributes[place]:
            return int(op.attributes[place][name].value)
    return None
