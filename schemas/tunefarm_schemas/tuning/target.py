"""What code is generated for."""

from functools import cached_property

from tunefarm_schemas.frozen import Frozen, digest


class Target(Frozen):
    """A TVM target in canonical form.

    ``canonical`` is JSON text with sorted keys, defaults filled in and attributes that do not change generated code
    dropped; two targets are the same exactly when these texts are. ``num_cores`` is the number of threads a CPU
    kernel runs on, or 0 for a device that has no such notion.
    """

    canonical: str
    kind: str
    num_cores: int

    @cached_property
    def target_id(self) -> str:
        """Digest of the canonical text."""
        return digest(self.canonical)
