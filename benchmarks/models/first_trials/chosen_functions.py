"""The functions whose first trials are judged, from models of the zoo.

``python -m benchmarks.models.first_trials.chosen_functions FOLDER NAME...`` writes those named as TVM JSON. It loads
torch, and is a process of its own, because a process that forks to measure must not have torch's threads.
"""

import math
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm_schemas.tuning.workload import Workload

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ChosenFunction:
    """One function of a model, chosen by what it computes: names change with the passes that make the functions.

    Attributes:
        name: of the recorded table.
        model: of the zoo.
        operator: the first operator in the function's name.
        shapes: of its first arguments.
        padded_shapes: of the same with channels of zeros, which some processors need for whole vectors.
        is_alone: whether it is made of its operator, because that is part of another function in the model.
    """

    name: str
    model: str
    operator: str
    shapes: tuple[Shape, ...]
    padded_shapes: tuple[Shape, ...] = ()
    is_alone: bool = False

    def is_it(self, name: str, shapes: tuple[Shape, ...]) -> bool:
        """Whether a function of the model with this name and these argument shapes is the chosen one."""
        return self.operator in name and shapes[: len(self.shapes)] in (self.shapes, self.padded_shapes)


def _conv(name: str, model: str, data: Shape, weight: Shape) -> ChosenFunction:
    """A convolution by the shapes that torch gives; functions have the channels last."""
    channels, *image = data
    outputs, inputs, *window = weight
    return ChosenFunction(name, model, "conv2d", ((1, *image, channels), (*window, inputs, outputs)))


def _pointwise(name: str, model: str, data: Shape, weights: tuple[int, int]) -> ChosenFunction:
    """A convolution of 1 x 1 by the shapes that torch gives; its kernels are in tiles of outputs."""
    channels, *image = data
    inputs, outputs = weights
    return ChosenFunction(name, model, "conv2d", ((1, *image, channels), (outputs // 16, inputs, 16)))


def _winograd(name: str, model: str, data: Shape, outputs: int) -> ChosenFunction:
    """The products of a convolution of 3 x 3 by Winograd's algorithm, with 6 x 6 places for 4 x 4 results of a tile."""
    channels, *image = data
    tiles = math.prod(-(-extent // 4) for extent in image)
    shapes = ((36, tiles, channels), (36, outputs // 16, channels, 16))
    return ChosenFunction(name, model, "products_of_places", shapes)


def _product(name: str, model: str, data: Shape, weights: tuple[int, int]) -> ChosenFunction:
    """A product with weights of ``float32`` by the shapes that torch gives; functions have them in tiles of columns."""
    inner, width = weights
    return ChosenFunction(name, model, "matmul", (data, (-(-width // 16), inner, 16)))


CHOSEN: Final = (
    _conv("conv-7x7-stem", "resnet18", (3, 224, 224), (64, 3, 7, 7)),
    _pointwise("conv-1x1-64", "resnet50", (64, 56, 56), (64, 64)),
    _winograd("conv-3x3-256", "resnet50", (256, 14, 14), 256),
    _pointwise("conv-1x1-2048-stride-2", "resnet50", (1024, 14, 14), (1024, 2048)),
    _winograd("conv-3x3-u-net", "u-net", (128, 64, 64), 64),
    _pointwise("conv-transposed", "u-net", (256, 16, 16), (256, 512)),  # 128 channels of 2x2 pixels
    _conv("conv-patches", "vit-tiny", (3, 224, 224), (192, 3, 16, 16)),
    _conv("conv-3x3-silu", "detector", (16, 160, 160), (32, 16, 3, 3)),
    ChosenFunction(
        *("conv-1x1-255", "detector", "conv2d"),
        shapes=((1, 40, 40, 64), (1, 1, 64, 255)),
        padded_shapes=((1, 40, 40, 64), (16, 64, 16)),
    ),
    _conv("depthwise-3x3", "mobilenet-v2", (96, 112, 112), (96, 1, 3, 3)),
    _conv("depthwise-5x5", "efficientnet-b0", (144, 56, 56), (144, 1, 5, 5)),
    _product("matmul-feed-forward", "bert", (128, 768), (768, 3072)),
    ChosenFunction("attention", "bert", "attention", ((12, 128, 64), (12, 8, 64, 16))),
    _product("matmul-narrow", "vit-tiny", (197, 768), (768, 192)),
    _product("matmul-one-row", "decoder", (1, 512), (512, 1408)),
    _product("matmul-classifier", "resnet50", (1, 2048), (2048, 1000)),
    ChosenFunction("softmax", "vit-tiny", "softmax", ((1, 3, 197, 197),), is_alone=True),
    ChosenFunction("layer-norm", "whisper", "layer_norm", ((1, 1500, 384),)),
    ChosenFunction("max-pool", "resnet18", "max_pool2d", ((1, 112, 112, 64),)),
    ChosenFunction("mean", "mobilenet-v2", "mean", ((1, 7, 7, 1280),)),
)


def workloads_of_model(model: str, folder: Path) -> list[Workload]:
    """The functions of a model of the zoo on one thread, by way of its file in ``folder``."""
    from benchmarks.models.model_files import model_file
    from benchmarks.models.zoo import ZOO
    from tunefarm.frontend.model_source import ModelFile
    from tunefarm.frontend.reading import read_model
    from tunefarm_search.relax.preparation import prepare
    from tunefarm_search.relax.tasks import model_tasks
    from tunefarm_search.tvm.target import host_target

    read = read_model(ModelFile(path=str(model_file(ZOO[model], "pt2", folder)), format="pt2"), {})
    return [task.workload for task in model_tasks(prepare(read.module, read.weights, host_target(1)))]


def _workload_alone(chosen: ChosenFunction) -> Workload:
    """The operator of a function along the last axis of its argument."""
    from tvm import relax

    from tunefarm_search.relax.preparation import prepare
    from tunefarm_search.relax.tasks import model_tasks
    from tunefarm_search.tvm.target import host_target

    data, builder = relax.Var("x", relax.TensorType(chosen.shapes[0], "float32")), relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(getattr(relax.op.nn, chosen.operator)(data, -1))
        builder.emit_func_output(result)
    (task,) = model_tasks(prepare(builder.get(), {}, host_target(1)))
    return task.workload


def write_functions(folder: Path, names: Collection[str]) -> None:
    """Write those of the chosen functions, each as ``NAME.json``.

    Raises:
        LookupError: a model has no such function.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [chosen for chosen in CHOSEN if chosen.name in names]
    for chosen in (each for each in wanted if each.is_alone):
        (folder / f"{chosen.name}.json").write_text(_workload_alone(chosen).module_json, encoding="utf-8")
    wanted = [chosen for chosen in wanted if not chosen.is_alone]
    for model in dict.fromkeys(chosen.model for chosen in wanted):
        workloads = workloads_of_model(model, folder)
        for chosen in (each for each in wanted if each.model == model):
            found = [
                workload
                for workload in workloads
                if chosen.is_it(workload.name, tuple(tuple(each.shape) for each in workload.arguments))
            ]
            if not found:
                raise LookupError(f"{model} has no function of {chosen.operator} with arguments {chosen.shapes}")
            (folder / f"{chosen.name}.json").write_text(found[0].module_json, encoding="utf-8")


if __name__ == "__main__":
    from tunefarm_search.tvm import loading

    loading.load()
    write_functions(Path(sys.argv[1]), sys.argv[2:])
