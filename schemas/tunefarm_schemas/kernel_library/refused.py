"""How the parts of the check report what they find."""


class Refused(Exception):
    """Raised for a library that must not be loaded; the text says why, for people."""


def require(holds: bool, reason: str) -> None:
    """Raise ``Refused`` with ``reason`` unless ``holds``."""
    if not holds:
        raise Refused(reason)
