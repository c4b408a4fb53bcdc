"""matplotlib, loaded by what draws: it takes half a second, which readers of figures need not wait for."""

from types import ModuleType


def load_pyplot() -> ModuleType:
    """Return ``matplotlib.pyplot`` with the backend that draws into files."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot  # the backend is chosen before pyplot is loaded

    return pyplot  # type: ignore[no-any-return]
