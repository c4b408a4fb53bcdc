"""Files of the twelve models, as users have them: ``.pt2`` of ``torch.export``, and ONNX.

``python -m benchmarks.models.model_files resnet18 bert --folder models`` writes both of each.
"""

import argparse
import hashlib
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.models.zoo import RELATIVES, TINY_ZOO, ZOO, ZooModel

ONNX_OPSET = 17
FORMATS = ("pt2", "onnx")


def exported_program(model: ZooModel) -> torch.export.ExportedProgram:
    """What ``torch.export`` makes of the model."""
    module, inputs = model.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an LSTM's weights have two names
        return torch.export.export(module, inputs)


def write_pt2(model: ZooModel, path: Path) -> None:
    """Write the exported program."""
    torch.export.save(exported_program(model), path)


def write_onnx(model: ZooModel, path: Path) -> None:
    """Write the model as ONNX; int8 layers become QuantizeLinear and DequantizeLinear."""
    module, inputs = model.build()
    _register_quantized_operators()
    with warnings.catch_warnings():
        # The exporter by tracing is deprecated, and the other one needs a package that is not here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Tupled(module) if len(model.output_names) > 1 else module,
            inputs,
            str(path),
            input_names=list(model.input_names),
            output_names=list(model.output_names),
            opset_version=ONNX_OPSET,
            dynamo=False,
        )


class _Tupled(nn.Module):
    """Gives several outputs as a tuple, whatever the model's sequence of outputs is."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> Any:
        return tuple(self.module(*inputs))


def _register_quantized_operators() -> None:
    from torch.onnx import register_custom_op_symbolic, symbolic_helper

    @symbolic_helper.parse_args("v", "f", "i", "i", "i", "i")
    def quantize(graph: Any, x: Any, scale: float, zero_point: int, *_: int) -> Any:
        return graph.op("QuantizeLinear", x, *_constants(graph, scale, zero_point))

    @symbolic_helper.parse_args("v", "f", "i", "i", "i", "i", "none")
    def dequantize(graph: Any, x: Any, scale: float, zero_point: int, *_: Any) -> Any:
        return graph.op("DequantizeLinear", x, *_constants(graph, scale, zero_point))

    @symbolic_helper.parse_args("v", "v", "v", "i", "i", "i", "i", "none")
    def dequantize_channels(graph: Any, x: Any, scales: Any, zero_points: Any, axis: int, *_: Any) -> Any:
        zeros = graph.op("Cast", zero_points, to_i=torch.onnx.TensorProtoDataType.INT8)
        return graph.op("DequantizeLinear", x, scales, zeros, axis_i=axis)

    for name, symbolic in (
        ("quantize_per_tensor", quantize),
        ("dequantize_per_tensor", dequantize),
        ("dequantize_per_channel", dequantize_channels),
    ):
        register_custom_op_symbolic(f"quantized_decomposed::{name}", symbolic, ONNX_OPSET)


def _constants(graph: Any, scale: float, zero_point: int) -> tuple[Any, Any]:
    return (
        graph.op("Constant", value_t=torch.tensor(scale, dtype=torch.float32)),
        graph.op("Constant", value_t=torch.tensor(zero_point, dtype=torch.int8)),
    )


WRITERS = {"pt2": write_pt2, "onnx": write_onnx}


def model_file(model: ZooModel, file_format: str, folder: Path) -> Path:
    """The model's file in ``folder``, written if it is not there."""
    path = folder / f"{model.name}.{file_format}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / f"{model.name}.half.{file_format}"
        WRITERS[file_format](model, half)
        half.replace(path)
    return path


def definition_digest() -> str:
    """Of the sources that define the models: files of others hold other weights."""
    sources = sorted((Path(__file__).parent / "zoo").glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def main() -> None:
    """Write files of the named models, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="names; all twelve without any")
    parser.add_argument("--folder", type=Path, default=Path("bench-output/models"))
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    known = TINY_ZOO if arguments.tiny else {**ZOO, **RELATIVES}
    unknown = [name for name in arguments.models if name not in known]
    if unknown:
        parser.error(f"no model is called {unknown[0]}; give some of: {', '.join(known)}")
    for name in arguments.models or known:
        for file_format in arguments.formats:
            print(model_file(known[name], file_format, arguments.folder), flush=True)


if __name__ == "__main__":
    main()
