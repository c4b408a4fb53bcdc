"""Whether this machine may measure where its kernel cannot confine candidates fully."""

from tunefarm_sandbox.confinement.abilities import abilities
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings


def require_confinement(settings: Settings) -> None:
    """Refuse to go on where full confinement is required and cannot be had.

    Raises:
        BadInput: it says what is missing.
    """
    missing = " ".join(abilities().missing()) if settings.require_confinement else ""
    if missing:
        fix = "Run on a kernel that offers it, or leave out --require-confinement and TUNEFARM_REQUIRE_CONFINEMENT."
        raise BadInput("sandbox", f"candidates cannot be confined fully here. {missing}", fix)
