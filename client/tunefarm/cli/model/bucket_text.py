"""What commands print about dynamic dimensions."""

from tunefarm_schemas.tuning.dynamic_shape import DynamicDimension
from tunefarm_schemas.tuning.model import ModelManifest


def bucket_lines(manifest: ModelManifest) -> list[str]:
    """A line for each dynamic dimension."""
    dynamic = manifest.dynamic
    if dynamic is None:
        return []
    return [_line(each, is_exact=dynamic.is_exact) for each in dynamic.dimensions]


def _line(dimension: DynamicDimension, *, is_exact: bool) -> str:
    sizes = ", ".join(map(str, dimension.sizes))
    if is_exact:
        return f"{dimension.name}: exactly {sizes}"
    text = f"{dimension.name}: buckets of {sizes}"
    if dimension.regret is not None:
        text += f"; a size is predicted to take at most {dimension.regret:.0%} longer than alone"
    if dimension.is_splittable:
        text += "; larger inputs are split"
    return text
