"""Twelve torch models with random weights and batch 1, in their published sizes and in tiny ones."""

from benchmarks.models.zoo.full_size import RELATIVES, ZOO
from benchmarks.models.zoo.tiny import TINY_RELATIVES, TINY_ZOO
from benchmarks.models.zoo.zoo_model import ZooModel, as_tensors

__all__ = ["RELATIVES", "TINY_RELATIVES", "TINY_ZOO", "ZOO", "ZooModel", "as_tensors"]
