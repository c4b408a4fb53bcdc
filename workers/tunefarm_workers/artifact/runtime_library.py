"""TVM's runtime without its compiler and without its Python packages, through the C interface of TVM's FFI.

For processes that only run what was compiled: importing those packages, and NumPy with them, takes a quarter of a
second of the processor, loading the two libraries a hundredth. The layouts are those of ``tvm/ffi/c_api.h``.
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
"""Of every object: reference count, type, deleter. Its own fields follow."""
_CPU: Final = 1


class _Value(ctypes.Structure):
    """``TVMFFIAny``. Small values lie in ``content`` itself, ``length`` bytes of it for text."""

    _fields_ = (("type_index", ctypes.c_int32), ("length", ctypes.c_uint32), ("content", ctypes.c_uint64))


class _Bytes(ctypes.Structure):
    """``TVMFFIByteArray``."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))

    def text(self) -> str:
        return self.read().decode(errors="replace")

    def read(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.data else b""


class _TensorFields(ctypes.Structure):
    """``DLTensor``, as far as it is read here."""

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
    """Raised where TVM's runtime reports an error; the text is its own."""


class Held:
    """An object of the runtime, let go with this handle of it. A function is called, a module indexed by a name."""

    def __init__(self, runtime: "Runtime", type_index: int, handle: int) -> None:
        self.runtime = runtime
        self.type_index = type_index
        self.handle = handle

    def __call__(self, *arguments: Any) -> Any:
        """Call the function that this is."""
        return self.runtime.call(self, arguments)

    def __getitem__(self, name: str) -> "Held":
        """The function called ``name`` of the module that this is. Raises ``RuntimeFailed`` where it has none."""
        found = self.runtime.function("ffi.ModuleGetFunction")(self, name, 0)
        if not isinstance(found, Held):
            raise RuntimeFailed(f"the library has no function {name}")
        return found

    def __del__(self) -> None:
        self.runtime.let_go(self.handle)

    def memory(self) -> memoryview:
        """The bytes of the tensor that this is, to be read and written while it is held."""
        fields = _TensorFields.from_address(self.handle + _HEADER_BYTES)
        size_bytes = (fields.bits * fields.lanes + 7) // 8
        for axis in range(fields.dimensions):
            size_bytes *= fields.shape[axis]
        return memoryview((ctypes.c_char * size_bytes).from_address(fields.data)).cast("B")


class Runtime:
    """The loaded runtime. Its libraries stay loaded for as long as the process lives.

    Attributes:
        library: what is called by the C interface of the runtime itself.
    """

    def __init__(self, ffi_library: str, runtime_library: str) -> None:
        """Load them so that compiled libraries find them. Raises ``OSError``."""
        self._ffi = ctypes.CDLL(ffi_library, mode=os.RTLD_GLOBAL)
        self.library = ctypes.CDLL(runtime_library, mode=os.RTLD_GLOBAL)
        self._call = self._ffi.TVMFFIFunctionCall
        self._call.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
        self._functions: dict[str, Held] = {}
        self._callbacks: list[object] = []

    def function(self, name: str) -> Held:
        """A function that the runtime has under ``name``. Raises ``RuntimeFailed``."""
        if name not in self._functions:
            handle = ctypes.c_void_p()
            self._require(self._ffi.TVMFFIFunctionGetGlobal(ctypes.byref(_bytes_of(name)), ctypes.byref(handle)))
            if not handle.value:
                raise RuntimeFailed(f"TVM's runtime has no function {name}")
            self._functions[name] = Held(self, _FUNCTION, handle.value)
        return self._functions[name]

    def register(self, name: str, function: Callable[[], None]) -> None:
        """Let the runtime call ``function`` under ``name``, whatever with and for nothing. Raises ``RuntimeFailed``."""

        def call(*_: object) -> int:
            function()
            return 0

        callback = _CALLBACK(call)
        self._callbacks.append(callback)
        handle = ctypes.c_void_p()
        self._require(self._ffi.TVMFFIFunctionCreate(None, callback, None, ctypes.byref(handle)))
        self._require(self._ffi.TVMFFIFunctionSetGlobal(ctypes.byref(_bytes_of(name)), handle, 1))

    def load(self, path: str) -> Held:
        """The compiled library at ``path``, whatever its name, as a module. Raises ``RuntimeFailed``."""
        return self._object(self.function("ffi.Module.load_from_file.so")(path, "so"))

    def allocate(self, shape: tuple[int, ...], dtype: str) -> Held:
        """A tensor in memory that TVM allocates, as a caller's would be."""
        held_shape = self.function("ffi.Shape")(*shape)
        allocate = self.function("runtime.TVMTensorAllocWithScope")
        return self._object(allocate(held_shape, self._data_type(dtype), _Value(_DEVICE, 0, _CPU), None))

    def call(self, function: Held, arguments: tuple[Any, ...]) -> Any:
        """What ``function`` gives: nothing, a number, bytes or an object. Raises ``RuntimeFailed``."""
        kept: list[Any] = []
        values = (_Value * max(len(arguments), 1))(*(self._value(argument, kept) for argument in arguments))
        result = _Value(_NONE, 0, 0)
        self._require(self._call(function.handle, values, len(arguments), ctypes.byref(result)))
        return self._given(result)

    def let_go(self, handle: int) -> None:
        """Give up one reference to an object."""
        self._ffi.TVMFFIObjectDecRef(ctypes.c_void_p(handle))

    def _value(self, argument: Any, kept: list[Any]) -> _Value:
        """``argument`` as the runtime takes it; ``kept`` holds what has to live until the call is over."""
        match argument:
            case Held():
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

    def _given(self, result: _Value) -> Any:
        if result.type_index == _NONE:
            return None
        if result.type_index == _SMALL_BYTES:
            return int(result.content).to_bytes(8, "little")[: result.length]
        if result.type_index < _FIRST_OBJECT:
            return int(result.content)
        held = Held(self, result.type_index, result.content)
        if result.type_index == _BYTES:
            return _Bytes.from_address(held.handle + _HEADER_BYTES).read()
        return held

    def _data_type(self, dtype: str) -> _Value:
        value = _Value(_DATA_TYPE, 0, 0)
        content = ctypes.byref(value, _Value.content.offset)
        self._require(self._ffi.TVMFFIDataTypeFromString(ctypes.byref(_bytes_of(dtype)), content))
        return value

    @staticmethod
    def _object(given: Any) -> Held:
        if not isinstance(given, Held):
            raise RuntimeFailed(f"TVM's runtime gave {given!r} where an object was expected")
        return given

    def _require(self, status: int) -> None:
        if status == 0:
            return
        handle = ctypes.c_void_p()
        self._ffi.TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
        if not handle.value:
            raise RuntimeFailed("TVM's runtime failed without saying why")
        error = Held(self, 0, handle.value)
        kind, message = (_Bytes * 2).from_address(error.handle + _HEADER_BYTES)
        raise RuntimeFailed(f"{kind.text()}: {message.text()}")


def _bytes_of(text: str) -> _Bytes:
    """``text`` for the length of the call that it is written in."""
    encoded = ctypes.create_string_buffer(text.encode())
    given = _Bytes(ctypes.addressof(encoded), len(encoded) - 1)
    given.owner = encoded
    return given
