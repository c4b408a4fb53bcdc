"""What a model needs in addition to its file: sizes, a choice of tracing, and external functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tunefarm.intake.module_source import readable_file
from tunefarm.model.sizes.wanted_buckets import FIELD, WantedBuckets, named_sizes
from tunefarm_schemas.bad_input import BadInput

Sizes = Mapping[str, tuple[int, ...]]
LABEL: Final = "model_options"
"""The label of a job that keeps them for ``--resume``."""
SIZES_LABEL: Final = "bucket_sizes"
"""The label with the sizes of dimensions whose sizes were chosen: timing them again might choose others."""


@dataclass(frozen=True)
class ModelOptions:
    """The options of a model.

    Attributes:
        shapes: sizes of inputs with dynamic dimensions, by name.
        is_traced: whether a torch module is traced with ``torch.fx``.
        functions_file: a Python file that registers the external functions that the model calls.
        buckets: sizes of dynamic dimensions; None for a model of constant shapes.
    """

    shapes: Sizes = field(default_factory=dict)
    is_traced: bool = False
    functions_file: Path | None = None
    buckets: WantedBuckets | None = None

    @classmethod
    def of_texts(cls, shapes: Sequence[str] | None, functions: str | None, *, traced: bool) -> "ModelOptions":
        """Parse ``NAME=N,N,...`` and the path of a Python file.

        Raises:
            BadInput: a text has another form, or the file does not exist.
        """
        sizes = dict(sizes_of_text(text) for text in shapes or ())
        return cls(sizes, traced, None if functions is None else functions_file(functions))

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> "ModelOptions":
        """The options of a job that has ``labels``."""
        if LABEL not in labels:
            return cls()
        kept = json.loads(labels[LABEL])
        shapes = {name: tuple(sizes) for name, sizes in kept["shapes"].items()}
        functions = functions_file(kept["functions"]) if kept["functions"] else None
        buckets = WantedBuckets.model_validate(kept["buckets"]) if kept.get("buckets") else None
        options = cls(shapes, kept["is_traced"], functions, buckets)
        return options.with_sizes(json.loads(labels[SIZES_LABEL])) if SIZES_LABEL in labels else options

    def with_sizes(self, sizes: Mapping[str, Sequence[int]]) -> "ModelOptions":
        """The same with the sizes that were chosen for ranges, by the name of the dimension."""
        if self.buckets is None:
            return self
        chosen = [
            named_sizes(each.places, sizes[each.name]) if each.is_range and each.name in sizes else each
            for each in self.buckets.dimensions
        ]
        return replace(self, buckets=self.buckets.model_copy(update={"dimensions": tuple(chosen)}))

    @property
    def labels(self) -> dict[str, str]:
        """The label that keeps them; none for the defaults."""
        if self == ModelOptions():
            return {}
        functions = None if self.functions_file is None else str(self.functions_file)
        kept = {"shapes": dict(self.shapes), "is_traced": self.is_traced, "functions": functions}
        if self.buckets is not None:
            kept["buckets"] = self.buckets.model_dump(mode="json")
        return {LABEL: json.dumps(kept, sort_keys=True)}

    def require_read(self, *, by_frontend: bool, is_model: bool) -> None:
        """Refuse options that a module does not take.

        Raises:
            BadInput: sizes or a trace are given for what no frontend converts, or functions for what is not a model.
        """
        for name, is_given, applies, to in (
            ("shape", bool(self.shapes), by_frontend, "models that a frontend converts"),
            ("traced", self.is_traced, by_frontend, "torch modules"),
            ("functions", self.functions_file is not None, is_model, "models"),
            (FIELD, self.buckets is not None, by_frontend, "models that a frontend converts"),
        ):
            if is_given and not applies:
                raise BadInput(name, f"only {to} have it.", "Leave it out.")


def sizes_of_text(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and the sizes of an input, from ``NAME=N,N,...``.

    Raises:
        BadInput: it has another form.
    """
    name, equals, sizes = text.partition("=")
    numbers = sizes.split(",")
    if not name or not equals or not all(each.isascii() and each.isdigit() and int(each) > 0 for each in numbers):
        raise BadInput("shape", f"{text!r} is not NAME=N,N,...", "Write, say, --shape x=1,3,224,224.")
    return name, tuple(map(int, numbers))


def functions_file(text: str) -> Path:
    """The path of a file that registers functions. Raises BadInput if there is no such file."""
    return readable_file("functions", text, fix="Give a Python file.")
