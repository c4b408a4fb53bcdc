"""Whether a library may be stored, shipped or loaded."""

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.dynamic import dynamic_of
from tunefarm_schemas.kernel_library.image import image_of
from tunefarm_schemas.kernel_library.refused import LibraryRefused, require
from tunefarm_schemas.kernel_library.relocations import require_relocations
from tunefarm_schemas.kernel_library.rules import ENTRY_PREFIX, RESERVED_PREFIX, LibraryRules
from tunefarm_schemas.kernel_library.sections import require_honest_sections
from tunefarm_schemas.kernel_library.symbols import require_allowed, symbols_of

KERNEL = LibraryRules()
"""The rules for a kernel on any CPU."""

REBUILD = "Do not load it. Run the same tune again, which rebuilds it."


def refusal_of(library: bytes, rules: LibraryRules = KERNEL) -> str | None:
    """Why ``library`` must not be loaded, as the end of "the library is refused:"; None if it may be.

    Accepts any bytes and executes none of them, in time bounded by their number.
    """
    try:
        image = image_of(library)
        named = rules.architecture
        require(named in {"", image.machine.name}, f"it is made for {image.machine.name}, not for {named}")
        dynamic = dynamic_of(image)
        symbols = symbols_of(image, dynamic)
        require_allowed(image, symbols, rules)
        require_relocations(image, dynamic, symbols)
        require_honest_sections(image, dynamic)
    except LibraryRefused as refused:
        return str(refused)
    return None


def require_kernel(library: bytes, field: str, rules: LibraryRules = KERNEL, fix: str = REBUILD) -> None:
    """Raise ``BadInput`` for ``field`` unless ``library`` may be loaded."""
    refusal = refusal_of(library, rules)
    if refusal is not None:
        raise BadInput(field, f"the library is refused: {refusal}.", fix)


def exported_functions(library: bytes) -> tuple[str, ...]:
    """The entry points of a library, as TVM's loader finds them by name.

    Raises:
        LibraryRefused: it is no library.
    """
    image = image_of(library)
    symbols = symbols_of(image, dynamic_of(image))
    return tuple(
        symbol.name.removeprefix(ENTRY_PREFIX)
        for symbol in symbols
        if not symbol.is_undefined
        and symbol.name.startswith(ENTRY_PREFIX)
        and not symbol.name.startswith(RESERVED_PREFIX)
    )
