"""The exception by which the checks report what they find."""


class LibraryRefused(Exception):
    """Raised for a library that must not be loaded, with the reason in words."""


def require(holds: bool, reason: str) -> None:
    """Raise ``LibraryRefused`` with ``reason`` unless ``holds``."""
    if not holds:
        raise LibraryRefused(reason)
