"""TVM's runtime without its compiler and its Python packages, through the C API of TVM's FFI.

For processes that only run compiled code: importing those packages and NumPy takes 250 ms of processor time, loading
the two libraries 10 ms. The layouts are those of ``tvm/ffi/c_api.h``.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

_NONE: Final = 0
_INTEGER: Final = 1
_DATA_TYPE: Final = 5
_DEVICE: Final = 6
_RAW_TEXT: Final = 8
_SMALL_BYTES: Final = 12
_FIRST_OBJECT: Final = 64
_BYTES: Final = 66
_FUNCTION: Final = 68
_HEADER_BYTES: Final = 24
"""The header of every object: reference count, type, deleter."""
_CPU: Final = 1


class _Value(ctypes.Structure):
    """``TVMFFIAny``. ``content`` holds small values itself, of text ``length`` bytes."""

    _fields_ = (("type_index", ctypes.c_int32), ("length", ctypes.c_uint32), ("content", ctypes.c_uint64))


class _Bytes(ctypes.Structure):
    """``TVMFFIByteArray``."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))

    def text(self) -> str:
        return self.read().decode(errors="replace")

    def read(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.data else b""


class _TensorFields(ctypes.Structure):
    """The fields of ``DLTensor`` that are read here."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


_CALLBACK: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
"""``TVMFFISafeCallType``."""


class RuntimeFailed(Exception):
    """Raised with the error that TVM's runtime reports."""


class RuntimeObject:
    """A counted reference to an object of the runtime. Call a function; index a module by name."""

    def __init__(self, runtime: "Runtime", type_index: int, handle: int) -> None:
        self.runtime = runtime
        self.type_index = type_index
        self.handle = handle

    def __call__(self, *arguments: Any) -> Any:
        """Call this function."""
        return self.runtime.call(self, arguments)

    def __getitem__(self, name: str) -> "RuntimeObject":
        """Return the function ``name`` of this module. Raises ``RuntimeFailed`` if it has none."""
        found = self.runtime.function("ffi.ModuleGetFunction")(self, name, 0)
        if not isinstance(found, RuntimeObject):
            raise RuntimeFailed(f"the library has no function {name}")
        return found

    def __del__(self) -> None:
        self.runtime.release(self.handle)

    def memory(self) -> memoryview:
        """Return the bytes of this tensor, valid while this reference lives."""
        fields = _TensorFields.from_address(self.handle + _HEADER_BYTES)
        size_bytes = (fields.bits * fields.lanes + 7) // 8
        for axis in range(fields.dimensions):
            size_bytes *= fields.shape[axis]
        return memoryview((ctypes.c_char * size_bytes).from_address(fields.data)).cast("B")


class Runtime:
    """The loaded runtime. Its libraries stay loaded until the process ends.

    Attributes:
        library: the runtime's own C API.
    """

    def __init__(self, ffi_library: str, runtime_library: str) -> None:
        """Load both with global symbols, which compiled libraries need. Raises ``OSError``."""
        self._ffi = ctypes.CDLL(ffi_library, mode=os.RTLD_GLOBAL)
        self.library = ctypes.CDLL(runtime_library, mode=os.RTLD_GLOBAL)
        self._call = self._ffi.TVMFFIFunctionCall
        self._call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
        self._functions: dict[str, RuntimeObject] = {}
        self._callbacks: list[object] = []

    def function(self, name: str) -> RuntimeObject:
        """Return the global function ``name``. Raises ``RuntimeFailed``."""
        if name not in self._functions:
            handle = ctypes.c_void_p()
            self._require(self._ffi.TVMFFIFunctionGetGlobal(ctypes.byref(_bytes_of(name)), ctypes.byref(handle)))
            if not handle.value:
                raise RuntimeFailed(f"TVM's runtime has no function {name}")
            self._functions[name] = RuntimeObject(self, _FUNCTION, handle.value)
        return self._functions[name]

    def register(self, name: str, function: Callable[[], None]) -> None:
        """Register ``function`` under ``name``; arguments are ignored. Raises ``RuntimeFailed``."""

        def call(*_: object) -> int:
            function()
            return 0

        callback = _CALLBACK(call)
        self._callbacks.append(callback)
        handle = ctypes.c_void_p()
        self._require(self._ffi.TVMFFIFunctionCreate(None, callback, None, ctypes.byref(handle)))
        self._require(self._ffi.TVMFFIFunctionSetGlobal(ctypes.byref(_bytes_of(name)), handle, 1))

    def load(self, path: str) -> RuntimeObject:
        """Load the compiled library at ``path`` as a module. Raises ``RuntimeFailed``."""
        return self._object(self.function("ffi.Module.load_from_file.so")(path, "so"))

    def allocate(self, shape: tuple[int, ...], dtype: str) -> RuntimeObject:
        """Allocate a tensor through TVM, with the alignment that callers get."""
        held_shape = self.function("ffi.Shape")(*shape)
        allocate = self.function("runtime.TVMTensorAllocWithScope")
        return self._object(allocate(held_shape, self._data_type(dtype), _Value(_DEVICE, 0, _CPU), None))

    def call(self, function: RuntimeObject, arguments: tuple[Any, ...]) -> Any:
        """Return the result of ``function``: None, a number, bytes or an object. Raises ``RuntimeFailed``."""
        kept: list[Any] = []
        values = (_Value * max(len(arguments), 1))(*(self._value(argument, kept) for argument in arguments))
        result = _Value(_NONE, 0, 0)
        self._require(self._call(function.handle, values, len(arguments), ctypes.byref(result)))
        return self._returned(result)

    def release(self, handle: int) -> None:
        """Drop one reference to an object."""
        self._ffi.TVMFFIObjectDecRef(ctypes.c_void_p(handle))

    def _value(self, argument: Any, kept: list[Any]) -> _Value:
        """Convert ``argument`` for the runtime; ``kept`` collects what must live until the call returns."""
        match argument:
            case RuntimeObject():
                return _Value(argument.type_index, 0, argument.handle)
            case _Value():
                return argument
            case None:
                return _Value(_NONE, 0, 0)
            case int():
                return _Value(_INTEGER, 0, argument & 0xFFFF_FFFF_FFFF_FFFF)
            case str():
                kept.append(ctypes.create_string_buffer(argument.encode()))
                return _Value(_RAW_TEXT, 0, ctypes.addressof(kept[-1]))
            case list():
                kept.append(self.function("ffi.Array")(*argument))
                return self._value(kept[-1], kept)
        raise TypeError(f"the runtime takes no {type(argument).__name__}")

    def _returned(self, result: _Value) -> Any:
        if result.type_index == _NONE:
            return None
        if result.type_index == _SMALL_BYTES:
            return int(result.content).to_bytes(8, "little")[: result.length]
        if result.type_index < _FIRST_OBJECT:
            return int(result.content)
        held = RuntimeObject(self, result.type_index, result.content)
        if result.type_index == _BYTES:
            return _Bytes.from_address(held.handle + _HEADER_BYTES).read()
        return held

    def _data_type(self, dtype: str) -> _Value:
        value = _Value(_DATA_TYPE, 0, 0)
        content = ctypes.byref(value, _Value.content.offset)
        self._require(self._ffi.TVMFFIDataTypeFromString(ctypes.byref(_bytes_of(dtype)), content))
        return value

    @staticmethod
    def _object(given: Any) -> RuntimeObject:
        if not isinstance(given, RuntimeObject):
            raise RuntimeFailed(f"TVM's runtime returned {given!r} where an object was expected")
        return given

    def _require(self, status: int) -> None:
        if status == 0:
            return
        handle = ctypes.c_void_p()
        self._ffi.TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
        if not handle.value:
            raise RuntimeFailed("TVM's runtime failed without an error message")
        error = RuntimeObject(self, 0, handle.value)
        kind, message = (_Bytes * 2).from_address(error.handle + _HEADER_BYTES)
        raise RuntimeFailed(f"{kind.text()}: {message.text()}")


def _bytes_of(text: str) -> _Bytes:
    """Borrow ``text`` for the duration of one call."""
    encoded = ctypes.create_string_buffer(text.encode())
    given = _Bytes(ctypes.addressof(encoded), len(encoded) - 1)
    given.owner = encoded
    return given
