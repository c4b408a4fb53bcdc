"""Targets of code generation."""

from functools import cached_property

from tunefarm_schemas.frozen import Frozen, digest


class Target(Frozen):
    """A TVM target in canonical form.

    ``canonical`` is JSON text with sorted keys and filled-in defaults, without attributes that do not change generated
    code; two targets are the same if and only if these texts are equal. ``num_cores`` is the number of threads of a CPU
    kernel, or 0 for a device without that notion.
    """

    canonical: str
    kind: str
    num_cores: int

    @cached_property
    def target_id(self) -> str:
        """Digest of the canonical text."""
        return digest(self.canonical)
