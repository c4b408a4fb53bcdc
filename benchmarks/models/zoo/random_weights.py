"""Random weights under which activations stay of order one, so that no mistake of a compiler is hidden.

With torch's initial weights, batch norms do nothing, layer norms neither, and the signal fades layer by layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks.models.zoo.int8_layers import Int8Layer

NORMS = (nn.BatchNorm2d, nn.LayerNorm)


def randomize(module: nn.Module, calibration: Sequence[tuple[Tensor, ...]], generator: torch.Generator) -> None:
    """Draw all weights, take the statistics of batch norms and int8 layers from ``calibration``; evaluation mode."""
    with torch.no_grad():
        for layer in module.modules():
            _draw(layer, generator)
        _calibrate(module, calibration)
    module.eval()
    for parameter in module.parameters():
        parameter.requires_grad_(False)


def _draw(layer: nn.Module, generator: torch.Generator) -> None:
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
        kept = 2.0 if isinstance(layer, nn.Conv2d) else 1.0  # ReLU halves the variance
        _normal(layer.weight, (kept / layer.weight[0].numel()) ** 0.5, generator)
        if layer.bias is not None:
            _normal(layer.bias, 0.1, generator)
    elif isinstance(layer, NORMS):
        layer.weight.uniform_(0.5, 1.5, generator=generator)
        _normal(layer.bias, 0.1, generator)
    elif isinstance(layer, nn.Embedding):
        _normal(layer.weight, 1.0, generator)
    elif isinstance(layer, nn.LSTM):
        for weight in layer.parameters():
            _normal(weight, weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.1, generator)


def _calibrate(module: nn.Module, calibration: Sequence[tuple[Tensor, ...]]) -> None:
    """Run the model as in training, which sets the means and variances of batch norms and the ranges of int8 layers."""
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    int8_layers = [layer for layer in module.modules() if isinstance(layer, Int8Layer)]
    if not norms and not int8_layers:
        return
    module.eval()
    for layer in norms:
        layer.momentum = None  # the mean over all batches
        layer.reset_running_stats()
        layer.train()
    stacked = [torch.cat(tensors) for tensors in zip(*calibration, strict=True)]
    module(*stacked)
    for int8_layer in int8_layers:
        int8_layer.quantize()


def _normal(weight: Tensor, scale: float, generator: torch.Generator) -> None:
    weight.normal_(0.0, scale, generator=generator)
