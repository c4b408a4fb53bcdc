"""Commands for edge devices and channels."""
