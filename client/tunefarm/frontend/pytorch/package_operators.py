"""Operators that packages define in Python, which a ``.pt2`` file only names."""

import torch


def define_grouped_product() -> None:
    """Define the product of transformers' mixtures of experts, unless that package is here and has defined it."""
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        return
    schema = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"
    operator = torch.library.custom_op(
        "transformers::grouped_mm_fallback", _grouped_product, mutates_args=(), schema=schema
    )
    operator.register_fake(_empty)


def _grouped_product(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Each row times the matrix of its group; groups end before the rows ``ends``."""
    result, begin = _empty(rows, matrices, ends).zero_(), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        result[begin:end], begin = rows[begin:end] @ matrix, end
    return result


def _empty(rows: torch.Tensor, matrices: torch.Tensor, _ends: torch.Tensor) -> torch.Tensor:
    return rows.new_empty(rows.shape[0], matrices.shape[2])
