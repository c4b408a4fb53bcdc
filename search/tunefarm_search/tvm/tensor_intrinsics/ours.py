"""The tensor intrinsics of this product, by name."""

from tunefarm_search.tvm.tensor_intrinsics.dot_products import is_dot_product, register_dot_products
from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import register_tiles, tiles_named


def is_ours(name: str) -> bool:
    """Whether an intrinsic is one of these."""
    return is_dot_product(name) or tiles_named(name) is not None


def register_ours(name: str) -> bool:
    """Make an intrinsic known to TVM if it is one of these; return whether it is. Idempotent."""
    if is_dot_product(name):
        register_dot_products()
        return True
    tiles = tiles_named(name)
    if tiles is not None:
        register_tiles(tiles)
    return tiles is not None
