"""Makes a part of a model that a library runs a function that TVM's virtual machine calls."""

from typing import Any

from tunefarm.model.library.library import LibraryKernel


def register_region(name: str, kernel: LibraryKernel) -> None:
    """Register a global function of TVM that runs ``kernel`` in destination-passing style, on TVM's tensors in place.

    It takes the inputs, then the outputs, as ``relax.call_dps_packed(name, ...)`` passes them. What the library raises
    reaches the caller as a ``RuntimeError`` with the name.

    Register before a virtual machine is made, which then looks functions up. A function that has the name already is
    replaced, except in the virtual machines that hold it.

    Tensors have the shapes and types of the program that calls the function; only their number is checked.
    """
    import tvm

    count = len(kernel.inputs)
    both = count + len(kernel.outputs)
    run_at = kernel.run_at

    def run_region(*tensors: Any) -> None:
        if len(tensors) != both:
            raise RuntimeError(f"{name}: it has {both} arguments, and was called with {len(tensors)}")
        addresses = [tensor.data_ptr() for tensor in tensors]
        try:
            run_at(addresses[:count], addresses[count:])
        except RuntimeError as error:
            raise RuntimeError(f"{name}: {error}") from error

    tvm.register_global_func(name, run_region, override=True)


def remove_region(name: str) -> None:
    """Remove a registered function, except from the virtual machines that hold it: it keeps a library's memory."""
    import tvm_ffi

    tvm_ffi.registry.remove_global_func(name)
