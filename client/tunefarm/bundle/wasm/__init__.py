"""Bundles as modules for WebAssembly."""
