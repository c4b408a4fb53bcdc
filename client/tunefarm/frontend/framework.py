"""The frameworks that read models, which are extras of this package."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tunefarm.frontend.model_source import FIELD
from tunefarm_schemas.bad_input import BadInput


class Framework(NamedTuple):
    """A package, the extra that installs it, and its versions that are read: from the first to before the second."""

    package: str
    extra: str
    oldest: tuple[int, ...]
    before: tuple[int, ...]


TORCH: Final = Framework("torch", "torch", (2, 7), (3,))
_OF_FORMAT: Final[Mapping[str, Framework]] = MappingProxyType(
    {
        "pt2": TORCH,
        "onnx": Framework("onnx", "onnx", (1, 16), (2,)),
        "tflite": Framework("tflite", "tflite", (2, 10), (3,)),
        "stablehlo": Framework("jax", "stablehlo", (0, 10), (1,)),
    }
)


@contextmanager
def framework_of(model_format: str) -> Iterator[None]:
    """Require the framework of a format, and name its extra if an import in the block fails.

    Raises:
        BadInput: it is not installed, or in a version that is not read.
    """
    framework = _OF_FORMAT.get(model_format)
    if framework is None:
        yield
        return
    require(framework)
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or framework.package).partition(".")[0]
        raise BadInput(FIELD, f"{missing} is not installed.", _install(framework)) from error


def require(framework: Framework) -> str:
    """The version of an installed framework, such as ``2.13.0``.

    Raises:
        BadInput: it is not installed, or in a version that is not read.
    """
    try:
        version = metadata.version(framework.package)
    except metadata.PackageNotFoundError as error:
        raise BadInput(FIELD, f"{framework.package} is not installed.", _install(framework)) from error
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])
    if not framework.oldest <= numbers < framework.before:
        oldest, before = (".".join(map(str, bound)) for bound in (framework.oldest, framework.before))
        problem = f"{framework.package} {version} is installed, but versions from {oldest} to before {before} are read."
        raise BadInput(FIELD, problem, _install(framework))
    return version.partition("+")[0]


def is_torch_module(model: Any) -> bool:
    """Whether it is one, without importing torch."""
    if not any(each.__module__.startswith("torch.nn") for each in type(model).__mro__):
        return False
    if not callable(model):
        raise BadInput("model", f"is a {type(model).__name__}.", "Give a torch.nn.Module.")
    return True


def refuse_missing(refused: BadInput) -> None:
    """Name the extra to install where a user's file was refused because it imports a framework that is missing.

    Raises:
        BadInput: for that reason.
    """
    cause = refused.__cause__
    missing = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    for framework in _OF_FORMAT.values():
        if framework.package == missing:
            raise BadInput(FIELD, refused.problem, _install(framework)) from cause


def _install(framework: Framework) -> str:
    return f"Run: pip install 'tunefarm[{framework.extra}]'"
