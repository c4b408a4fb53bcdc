"""A model of the benchmark: how it is built, what it is called with, and how near another implementation must come."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.random_weights import randomize

WEIGHT_SEED = 20
FLOAT32_TOLERANCE = 1e-4


@dataclass(frozen=True)
class ZooModel:
    """A torch model with random weights and batch 1.

    Attributes:
        name: as options, files and tables have it.
        make: the module with torch's initial weights.
        make_inputs: inputs of one call, drawn from the generator.
        input_names: of the inputs, in order.
        output_names: of the outputs, in order.
        tolerance: of the largest absolute difference from torch, relative to the largest absolute value of an output.
        parameters: the number of weights that the published model has; None where there is none.
    """

    name: str
    make: Callable[[], nn.Module]
    make_inputs: Callable[[torch.Generator], tuple[Tensor, ...]]
    input_names: tuple[str, ...] = ("x",)
    output_names: tuple[str, ...] = ("y",)
    tolerance: float = FLOAT32_TOLERANCE
    parameters: int | None = None

    def build(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """The module in evaluation mode, with the same weights at each call, and example inputs."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(WEIGHT_SEED)
            module = self.make()
        calibration = [self.inputs(1000 + number) for number in range(4)]
        randomize(module, calibration, torch.Generator().manual_seed(WEIGHT_SEED))
        return module, self.inputs(0)

    def inputs(self, number: int) -> tuple[Tensor, ...]:
        """Random inputs: the same for the same ``number``."""
        return self.make_inputs(torch.Generator().manual_seed(number))


def normal(*shape: int) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    """One input of normally distributed numbers."""
    return lambda generator: (torch.randn(*shape, generator=generator),)


def images(size: int) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    """One image: noise over large random shapes, which a mean over all pixels does not remove."""

    def draw(generator: torch.Generator) -> tuple[Tensor, ...]:
        shapes = functional.interpolate(torch.randn(1, 3, 4, 4, generator=generator), (size, size), mode="bilinear")
        return (shapes + 0.5 * torch.randn(1, 3, size, size, generator=generator),)

    return draw


def as_tensors(outputs: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The outputs of a call as a tuple, whatever the module returns."""
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
