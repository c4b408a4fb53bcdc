"""Target attributes that are allowed from outside: an allow-list for each kind.

The others affect a compiler's command line (``cl-opt``, ``llvm-options``), select how code is run (``jit``), or make it
call libraries (``libs``).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.lane import unmeasured_kind

OF_EVERY_KIND: Final = frozenset(
    {"kind", "keys", "tag", "device", "model", "host", "from_device", "target_device_type"}
)
_OF_LLVM: Final = frozenset(
    {"mabi", "mattr", "mcpu", "mfloat-abi", "mtriple", "num-cores", "opt-level", "vector-width", "fast-math"}
    | {f"fast-math-{name}" for name in ("arcp", "contract", "ninf", "nnan", "nsz", "reassoc")}
)
_OF_GRAPHICS: Final = frozenset(
    {"max_num_threads", "max_shared_memory_per_block", "max_threads_per_block", "thread_warp_size"}
)
_OF_VULKAN: Final = frozenset(
    f"supports_{name}"
    for name in (
        *("16bit_buffer", "8bit_buffer", "cooperative_matrix", "dedicated_allocation", "float16", "float32"),
        *("float64", "int16", "int32", "int64", "int8", "integer_dot_product", "push_descriptor"),
        "storage_buffer_storage_class",
    )
) | {
    *("mattr", "device_name", "device_type", "driver_name", "driver_version", "max_block_size_x", "max_block_size_y"),
    *("max_block_size_z", "max_per_stage_descriptor_storage_buffer", "max_push_constants_size", "max_spirv_version"),
    *("max_storage_buffer_range", "max_uniform_buffer_range", "supported_subgroup_operations", "vulkan_api_version"),
}
ATTRIBUTES: Final[Mapping[str, frozenset[str]]] = {
    "llvm": _OF_LLVM,
    "c": frozenset({"constants-byte-alignment", "march", "mcpu", "num-cores", "workspace-byte-alignment"}),
    "cuda": _OF_GRAPHICS | {"arch", "l2_cache_size_bytes", "mcpu", "registers_per_block"},
    "nvptx": _OF_GRAPHICS | {"mcpu", "mtriple"},
    "rocm": _OF_GRAPHICS | {"mattr", "mcpu", "mtriple"},
    "metal": _OF_GRAPHICS | {"max_function_args"},
    "opencl": _OF_GRAPHICS
    | {"image_base_address_alignment", "max_function_args", "texture_depth_limit", "texture_spatial_limit"},
    "vulkan": _OF_GRAPHICS | _OF_VULKAN,
    "webgpu": _OF_GRAPHICS | {"supports_subgroups"},
    "hexagon": frozenset({"mattr", "mcpu", "mtriple", "num-cores", "vtcm-capacity"}),
}
TUNED_KINDS: Final = ("llvm", "cuda", "rocm", "metal", "vulkan", "opencl")
"""Kinds that a service tunes for and a store keeps records of."""

_WORD: Final = re.compile(r"[\w.+:/() -]{0,200}")
_LARGEST: Final = 1 << 53
_DEEPEST: Final = 2
FIX: Final = "Leave it out: the farm decides that itself."


def require_permitted_target(attributes: Mapping[str, Any], *, tuned: bool = False, depth: int = _DEEPEST) -> None:
    """Accept a target whose attributes only affect the generated code. The same applies to a nested host.

    With ``tuned`` its kind must be one that schedules are searched for.

    Raises:
        BadInput: it names a kind, an attribute or a value that is not allowed.
    """
    kind = attributes.get("kind")
    if not isinstance(kind, str) or kind not in ATTRIBUTES or (tuned and kind not in TUNED_KINDS):
        kinds = ", ".join(TUNED_KINDS)
        raise BadInput("target", f"the kind {str(kind)[:40]} is not tuned here.", f"Use one of: {kinds}.")
    for name, value in attributes.items():
        if name not in OF_EVERY_KIND and name not in ATTRIBUTES[kind]:
            raise BadInput("target", f"it has the attribute {str(name)[:40]}.", FIX)
        if name == "host" and isinstance(value, Mapping) and depth > 0:
            require_permitted_target(value, depth=depth - 1)
        elif not _is_plain(value):
            raise BadInput(
                "target", f"its attribute {name} has a value that is not allowed.", "Write a word or number."
            )


def require_measured_kind(attributes: Mapping[str, object]) -> None:
    """Raise BadInput for a kind that TVM generates code for and that no worker measures."""
    kind = attributes.get("kind")
    if isinstance(kind, str) and kind in ATTRIBUTES and (reason := unmeasured_kind(kind)) is not None:
        raise reason


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= 1000 and all(isinstance(item, str) and _is_plain(item) for item in value)
    if isinstance(value, str):
        return _WORD.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float) and -_LARGEST < value < _LARGEST)
