"""Installs signed releases of compiled models on edge devices, and runs them."""

from tunefarm_edge.runtime.model import Model

__all__ = ["Model"]
