"""What the library of a kernel may import, export and request from the dynamic loader."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

MAX_BYTES: Final = 256 << 20
"""Section of a function's constants, which are part of its library."""

RUNTIME_FUNCTIONS: Final = frozenset(
    {
        *("TVMBackendParallelLaunch", "TVMBackendParallelBarrier", "TVMBackendAllocWorkspace"),
        *("TVMBackendFreeWorkspace", "TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts"),
    }
)
"""Functions that TVM's code generator calls for a kernel that computes. None of them looks up a function by name."""

LOOKUP_FUNCTIONS: Final = frozenset(
    {"TVMFFIFunctionCall", "TVMFFIEnvModLookupFromImports", "TVMFFIHandleInitOnce"},
)
"""Functions that it calls to look up a function by name and call it: any function registered in the process."""

_MATH: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf"),
    *("erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot"),
    *("ldexp", "log", "log10", "log1p", "log2", "nearbyint", "nextafter", "pow", "remainder", "rint", "round"),
    *("roundeven", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
)
"""Functions of the C math library that return a value and have no side effect."""

_SINE_AND_COSINE: Final = ("sincos", "sincosf")
"""What LLVM calls for the sine and the cosine of one number. Writes them where the caller says, as ``memcpy`` does."""

_MEMORY: Final = ("memcpy", "memmove", "memset", "memcmp", "bzero")

_COMPILER_RUNTIME: Final = (
    *("__gnu_h2f_ieee", "__gnu_f2h_ieee", "__extendhfsf2", "__extendhfdf2", "__truncsfhf2", "__truncdfhf2"),
    *("__truncsfbf2", "__truncdfbf2", "__extendbfsf2"),
    *("__addsf3", "__subsf3", "__mulsf3", "__divsf3", "__adddf3", "__subdf3", "__muldf3", "__divdf3", "__negsf2"),
    *("__negdf2", "__eqsf2", "__nesf2", "__ltsf2", "__lesf2", "__gtsf2", "__gesf2", "__unordsf2", "__eqdf2"),
    *("__nedf2", "__ltdf2", "__ledf2", "__gtdf2", "__gedf2", "__unorddf2", "__extendsfdf2", "__truncdfsf2"),
    *("__fixsfsi", "__fixsfdi", "__fixunssfsi", "__fixunssfdi", "__fixdfsi", "__fixdfdi", "__fixunsdfsi"),
    *("__fixunsdfdi", "__floatsisf", "__floatdisf", "__floatunsisf", "__floatundisf", "__floatsidf"),
    *("__floatdidf", "__floatunsidf", "__floatundidf", "__muldi3", "__mulsi3", "__multi3", "__divdi3", "__divsi3"),
    *("__divti3", "__moddi3", "__modsi3", "__modti3", "__udivdi3", "__udivsi3", "__udivti3", "__umoddi3"),
    *("__umodsi3", "__umodti3", "__ashldi3", "__ashrdi3", "__lshrdi3", "__ashlti3", "__ashrti3", "__lshrti3"),
    *("__popcountsi2", "__popcountdi2", "__clzsi2", "__clzdi2", "__ctzsi2", "__ctzdi2", "__powisf2", "__powidf2"),
    *("__aeabi_memcpy", "__aeabi_memmove", "__aeabi_memset", "__aeabi_memclr", "__aeabi_memcpy4"),
    *("__aeabi_memcpy8", "__aeabi_memmove4", "__aeabi_memmove8", "__aeabi_memset4", "__aeabi_memset8"),
    *("__aeabi_memclr4", "__aeabi_memclr8", "__aeabi_idiv", "__aeabi_uidiv", "__aeabi_idivmod"),
    *("__aeabi_uidivmod", "__aeabi_ldivmod", "__aeabi_uldivmod", "__aeabi_lmul", "__aeabi_llsl", "__aeabi_llsr"),
    *("__aeabi_lasr", "__aeabi_f2h", "__aeabi_h2f", "__aeabi_f2lz", "__aeabi_f2ulz", "__aeabi_d2lz"),
    *("__aeabi_d2ulz", "__aeabi_l2f", "__aeabi_ul2f", "__aeabi_l2d", "__aeabi_ul2d"),
)
"""Arithmetic for which a processor has no instruction."""

PURE_FUNCTIONS: Final = frozenset(
    {*_MATH, *(f"{name}f" for name in _MATH), *_SINE_AND_COSINE, *_MEMORY, *_COMPILER_RUNTIME},
)

NEEDED: Final = frozenset({"libm.so.6", "libc.so.6", "libm.so", "libc.so"})
"""Libraries that the loader may load with it. TVM's own are already loaded."""

ENTRY_PREFIX: Final = "__tvm_ffi_"
RESERVED_PREFIX: Final = "__tvm_ffi__"
"""Symbols that TVM's loader itself reads: ``LIBRARY_BINARY`` makes it build further modules."""
LIBRARY_CONTEXT: Final = "__tvm_ffi__library_ctx"
LIBRARY_BINARY: Final = "__tvm_ffi__library_bin"


@dataclass(frozen=True)
class ElfMachine:
    """The relocations that the linker writes into a kernel library for a processor, by their numbers in its ABI."""

    name: str
    is_64_bit: bool
    relative: int
    of_symbols: frozenset[int]

    @property
    def pointer_bytes(self) -> int:
        """Size of an address."""
        return 8 if self.is_64_bit else 4


MACHINES: Final[Mapping[int, ElfMachine]] = MappingProxyType(
    {
        62: ElfMachine("x86_64", is_64_bit=True, relative=8, of_symbols=frozenset({1, 6, 7})),
        183: ElfMachine("aarch64", is_64_bit=True, relative=1027, of_symbols=frozenset({257, 1025, 1026})),
        243: ElfMachine("riscv64", is_64_bit=True, relative=3, of_symbols=frozenset({2, 5})),
        40: ElfMachine("arm", is_64_bit=False, relative=23, of_symbols=frozenset({2, 21, 22})),
    }
)
"""By ``e_machine``. Others are refused until a board needs them."""


@dataclass(frozen=True)
class LibraryRules:
    """What one library may do beyond what every kernel may.

    ``architecture`` is the one it must be compiled for, in the notation of ``Processor``; empty for any. ``callees``
    are functions outside of it that its owner allows it to call. ``may_hold_device_code`` is for GPUs: the host code
    looks up the kernels that the library embeds, by name.
    """

    architecture: str = ""
    callees: tuple[str, ...] = ()
    may_hold_device_code: bool = False

    @property
    def may_look_up(self) -> bool:
        """Whether it may look up functions by name."""
        return self.may_hold_device_code or bool(self.callees)

    def runtime_functions(self) -> Collection[str]:
        """The functions of TVM's runtime that it may call."""
        return RUNTIME_FUNCTIONS | LOOKUP_FUNCTIONS if self.may_look_up else RUNTIME_FUNCTIONS

    def may_import(self, name: str) -> bool:
        """Whether it may call the function ``name`` of another library."""
        return name in PURE_FUNCTIONS or name in self.runtime_functions() or name in self.callees

    def is_pointer(self, name: str) -> bool:
        """Whether TVM's loader fills in the variable ``name``."""
        if name == LIBRARY_CONTEXT:
            return self.may_look_up
        return name.startswith("__") and name[2:] in self.runtime_functions()
