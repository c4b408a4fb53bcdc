"""Parts of a model that a library runs instead of our kernels."""
