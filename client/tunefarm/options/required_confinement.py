"""The check that this machine's kernel can confine candidates as the settings require."""

from tunefarm_sandbox.confinement.abilities import abilities
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings


def require_confinement(settings: Settings) -> None:
    """Raise if the settings require full confinement and the kernel does not support it.

    Raises:
        BadInput: lists the missing features.
    """
    missing = " ".join(abilities().missing()) if settings.require_confinement else ""
    if missing:
        fix = "Run on a kernel that supports it, or omit --require-confinement and TUNEFARM_REQUIRE_CONFINEMENT."
        raise BadInput("sandbox", f"this host cannot fully confine candidates. {missing}", fix)
