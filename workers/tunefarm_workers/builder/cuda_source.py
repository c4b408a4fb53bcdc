"""CUDA source of a scheduled module, and how its host code launches the kernels."""

import math
from collections.abc import Iterator
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import codegen
from tvm.tirx.build import split_host_device_mods

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.builder.scheduled_module import target_of

_COMPILE: Final = "tvm_callback_cuda_compile"
_PREFIX: Final = "__tvm_ffi_"
_AXES: Final = ("x", "y", "z")
_SHARED: Final = "tirx.use_dyn_shared_memory"
_SCOPE_PRAGMA: Final = "pragma_scope"
"""TVM's functions that are written for GPUs, such as scatter, have it around their kernels."""
_POINTER_FIELD: Final = 15
"""The number of an argument's pointer in TVM's structure access."""
_FIX: Final = "Tune it again, or use its library: tunefarm artifact build RECORD --output DIR"


class KernelLaunch(Frozen):
    """A launch of a kernel.

    Attributes:
        kernel: its name in the source.
        grid, block: blocks, and threads of a block, along x, y and z.
        dynamic_shared_bytes: of each block, beyond what the kernel declares.
        arguments: for each pointer, the number of the function's tensor; numbers after those are workspaces.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[int, ...]


class CudaFunction(Frozen):
    """A function as launches, in order. ``workspaces_bytes`` is memory of the device that only they use."""

    name: str
    tensors: int
    workspaces_bytes: tuple[int, ...]
    launches: tuple[KernelLaunch, ...]


class CudaSource(Frozen):
    """CUDA source, and the functions whose kernels it has."""

    source: str
    functions: tuple[CudaFunction, ...]


def cuda_source(module: Any, canonical: str) -> CudaSource:
    """The functions of a scheduled module.

    Args:
        module: functions whose loops are bound to blocks and threads, with their names as global symbols.
        canonical: of the target, whose kind is ``cuda``.

    Raises:
        BadInput: the host code of a function does more than launch kernels.
        TVM's errors: it cannot generate CUDA for something in the module.
    """
    target = tvm.target.Target(target_of(canonical), host=tvm.target.Target({"kind": "llvm"}))
    begun = tvm.IRModule({name: _without_offsets(function) for name, function in module.functions.items()})
    bound = tirx.transform.BindTarget(target)(begun)
    lower, _, finalize_device = tirx.get_default_tir_pipeline(target)
    host, devices = split_host_device_mods(lower(bound))
    functions = tuple(
        _Host(str(function.attrs["global_symbol"]).removeprefix(_PREFIX), function).read()
        for _, function in sorted(host.functions.items(), key=lambda each: str(each[0].name_hint))
    )
    if len(devices) != 1:
        raise _inexpressible(functions[0].name, "launches no kernel")
    [(device, kernels)] = devices.items()
    return CudaSource(source=_source(finalize_device()(kernels), device), functions=functions)


def _without_offsets(function: Any) -> Any:
    """``function`` for tensors that begin where their memory does. TVM passes other offsets to kernels as numbers."""
    offset = [each for each in function.params if isinstance(each.elem_offset, tirx.Var)]
    begun = {each: tirx.decl_buffer(each.shape, each.dtype, each.name, elem_offset=0) for each in offset}
    return function.specialize(begun) if begun else function


def _source(kernels: Any, device: Any) -> str:
    """TVM's source. Its own compiler is not called: what it compiles depends on the host and its environment.

    Where TVM can load its CUDA runtime, it wants bytes of its compiler, and reads them when a kernel is first launched.
    """
    compiler = tvm.get_global_func(_COMPILE)
    tvm_ffi.register_global_func(_COMPILE, str.encode, override=True)
    try:
        return str(codegen.build_module(kernels, device).inspect_source())
    finally:
        tvm_ffi.register_global_func(_COMPILE, compiler, override=True)


class _Host:
    """The host code of one function: checks of its arguments, then launches in the scope of its computation."""

    def __init__(self, name: str, function: Any) -> None:
        self._name = name
        self._function = function
        self._given: dict[int, int] = {}  # numbers of tensors by the variable of their handle
        self._numbers: dict[int, int] = {}  # numbers of tensors and workspaces by buffer
        self._workspaces: list[int] = []

    def read(self) -> CudaFunction:
        arguments = self._function.params[1]
        scopes: list[Any] = []
        tvm_ffi.structural_walk(self._function.body, (tirx.Bind, lambda each: self._bind(each, arguments)), order="pre")
        tvm_ffi.structural_walk(self._function.body, (tirx.DeclBuffer, self._declare), order="pre")
        tvm_ffi.structural_walk(self._function.body, (tirx.AttrStmt, scopes.append), order="pre")
        computing = [each for each in scopes if str(each.attr_key) == "compute_scope"]
        if len(computing) != 1:
            raise _inexpressible(self._name, "does not compute in one place")
        tensors = len(self._given)
        launches = tuple(self._launch(each) for each in self._calls(computing[0].body, tensors))
        if not launches:
            raise _inexpressible(self._name, "launches no kernel")
        workspaces = tuple(self._workspaces)
        return CudaFunction(name=self._name, tensors=tensors, workspaces_bytes=workspaces, launches=launches)

    def _bind(self, statement: Any, arguments: Any) -> None:
        """Handles of tensors are read from the array of arguments."""
        found: list[Any] = []
        tvm_ffi.structural_walk(statement.value, (tvm.ir.Call, found.append), order="pre")
        for call in found:
            is_pointer = str(call.op.name) == "tirx.tvm_struct_get" and int(call.args[2]) == _POINTER_FIELD
            if is_pointer and call.args[0].same_as(arguments):
                self._given[hash(statement.var)] = int(call.args[1])

    def _declare(self, statement: Any) -> None:
        """A buffer is a tensor's data, or another view of a buffer."""
        calls: list[Any] = []
        tvm_ffi.structural_walk(statement.data, (tvm.ir.Call, calls.append), order="pre")
        for call in calls:
            for known in (self._given, self._numbers):
                number = known.get(hash(call.args[0])) if call.args else None
                if number is not None:
                    self._numbers[hash(statement.buffer)] = number

    def _calls(self, statement: Any, tensors: int) -> Iterator[Any]:
        """The launches of straight-line code, with its buffers as workspaces after the tensors."""
        for each in statement.seq if isinstance(statement, tirx.SeqStmt) else [statement]:
            if isinstance(each, tirx.AllocBuffer):
                self._numbers[hash(each.buffer)] = tensors + len(self._workspaces)
                self._workspaces.append(_size_bytes(each.buffer))
            elif isinstance(each, tirx.DeclBuffer):
                self._declare(each)
            elif isinstance(each, tirx.AttrStmt) and str(each.attr_key) == _SCOPE_PRAGMA:
                yield from self._calls(each.body, tensors)
            elif isinstance(each, tirx.Evaluate) and _is_launch(each.value):
                yield each.value
            else:
                raise _inexpressible(self._name, "computes on the host, or launches kernels in a loop")

    def _launch(self, call: Any) -> KernelLaunch:
        tags = [str(each) for each in call.attrs["launch_params"]]
        kernel, *rest = list(call.args)
        pointers, values = rest[: len(rest) - len(tags)], rest[len(rest) - len(tags) :]
        if not all(isinstance(each, tirx.IntImm) for each in values):
            raise _inexpressible(self._name, "launches numbers of blocks or threads that are not constant")
        sizes = {tag: int(each) for tag, each in zip(tags, values, strict=True)}
        launch = KernelLaunch(
            kernel=str(kernel.value),
            grid=_extents(sizes, "blockIdx"),
            block=_extents(sizes, "threadIdx"),
            dynamic_shared_bytes=sizes.pop(_SHARED, 0),
            arguments=tuple(self._pointer(each) for each in pointers),
        )
        if sizes:
            raise _inexpressible(self._name, f"launches kernels with {', '.join(sizes)}")
        return launch

    def _pointer(self, value: Any) -> int:
        number = self._numbers.get(hash(value.args[0])) if isinstance(value, tvm.ir.Call) and value.args else None
        if number is None:
            raise _inexpressible(self._name, "passes something else than tensors to a kernel")
        return number


def _is_launch(value: Any) -> bool:
    return isinstance(value, tvm.ir.Call) and str(value.op.name) == "tirx.call_ffi_kernel"


def _extents(sizes: dict[str, int], name: str) -> tuple[int, int, int]:
    x, y, z = (sizes.pop(f"{name}.{axis}", 1) for axis in _AXES)
    return x, y, z


def _size_bytes(buffer: Any) -> int:
    elements = math.prod(int(each) for each in buffer.shape)
    dtype = tvm.DataType(str(buffer.dtype))
    return elements * -(-int(dtype.bits) * int(dtype.lanes) // 8)


def _inexpressible(name: str, problem: str) -> BadInput:
    return BadInput("source", f"{name} cannot be a part of a bundle for a GPU: it {problem}.", _FIX)
