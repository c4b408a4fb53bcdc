"""Decides on the whole model which parts our kernels run, and which a library."""
