"""Products of two tiles by the matrix unit of Intel's AMX, of 8-bit integers or bfloat16, as tensor intrinsics of TVM.

A register of the unit, a tile, holds up to 16 rows of 64 bytes. One instruction multiplies up to 16 rows of 64 bytes of
activations by the weights of 16 sums, and adds to 16 rows of 16 sums of 32 bits: 16 times as much as an instruction on
vectors. Products come in words of 32 bits, four of integers or two of bfloat16.

The sums of one intrinsic fill up to four tiles. They stay there for all products, so an intrinsic has two parts, which
a schedule uses one after the other: the first sets the shapes of the tiles and clears the sums, the second adds all
products of a window and stores the sums. Memory holds them only behind the second.

The shapes depend on the operator, so the name of an intrinsic states them, and it is made from its name where a trace
uses it.

Linux saves these registers only for processes that ask for it, see ``tunefarm_workers.builder.x86.matrix_unit``.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.s_tir import TensorIntrin

from tunefarm_search.tvm.quick_decorators import quick_decorators
from tunefarm_search.tvm.tensor_intrinsics.dot_products import SUMS
from tunefarm_search.tvm.tensor_intrinsics.tile_elements import INTEGERS, TILE_ELEMENTS, TileElements
from tunefarm_search.tvm.tile_registers import are_granted

TILE_ROWS: Final = 16
TILE_BYTES: Final = 64
"""Of a row."""
TILES: Final = 8
MIN_ROWS: Final = 4
"""With fewer positions for each instruction, vectors are as fast."""
MIN_PRODUCTS: Final = 192
"""With fewer of a sum, setting up the tiles and storing the sums takes longer than vectors."""
WORD_BYTES: Final = 4
CONFIGURE: Final = "llvm.x86.ldtilecfg"
CLEAR: Final = "llvm.x86.tilezero"
LOAD: Final = "llvm.x86.tileloadd64"
STORE: Final = "llvm.x86.tilestored64"
RELEASE: Final = "llvm.x86.tilerelease"
_FEATURE: Final = "amx-tile"
"""LLVM's name of the instruction set of all elements."""
TILE_INTRINSICS: Final = (CONFIGURE, CLEAR, LOAD, *(each.multiply for each in TILE_ELEMENTS), STORE, RELEASE)
"""LLVM's names of the instructions."""

_CALL: Final = "tirx.call_llvm_intrin"
_PREFIX: Final = "tunefarm.tiles"
_NAME: Final = re.compile(
    rf"{re.escape(_PREFIX)}({'|'.join(re.escape(each.name) for each in TILE_ELEMENTS)})_(clear|add)"
    r"_(\d+)x(\d+)x(\d+)_(\d+)_((?:\d+x){0,2}\d+|none)_(\d+)_((?:\d+x){0,2}\d+|none)"
)
_MAX_NUMBER: Final = 1 << 16
_WORDS: Final = 16
"""Of 32 bits, of a configuration."""


def features_of_tiles(function: Any) -> tuple[str, ...]:
    """What a scheduled or lowered function needs for its use of the unit, as Linux names it; nothing if it has none."""
    found: set[str] = set()
    look = (Call, lambda call: found.add(intrinsic_of(call)))
    tvm_ffi.structural_walk(function.body, look, order="post")
    features = [each.feature for each in TILE_ELEMENTS if each.multiply in found]
    return tuple(each.replace("-", "_") for each in [*features, _FEATURE]) if CONFIGURE in found else ()


def intrinsic_of(call: Any) -> str:
    """LLVM's name of the intrinsic that a call runs for its effect; empty for other calls."""
    if str(getattr(call.op, "name", "")) != _CALL or not isinstance(call.args[0], tirx.IntImm):
        return ""
    return str(tvm.target.codegen.llvm_get_intrinsic_name(int(call.args[0])))


@dataclass(frozen=True)
class MatrixTiles:
    """The shapes of an intrinsic: the results of one call, and the window that they read.

    Attributes:
        row_tiles: tiles with sums of the same channels.
        rows: neighbouring positions of each of these.
        channel_tiles: blocks of 16 output channels.
        depth_blocks: words of neighbouring input channels.
        kernel: extents of the window; empty for a matrix product.
        stride: between positions, along the last axis of the window.
        dilation: of the window, one for each extent.
        elements: what is multiplied.
    """

    row_tiles: int
    rows: int
    channel_tiles: int
    depth_blocks: int
    kernel: tuple[int, ...] = ()
    stride: int = 1
    dilation: tuple[int, ...] = ()
    elements: TileElements = INTEGERS

    @property
    def positions(self) -> int:
        """Of the results."""
        return self.row_tiles * self.rows

    @property
    def channels(self) -> int:
        """Of the results."""
        return self.channel_tiles * SUMS

    @property
    def depth(self) -> int:
        """Input channels of one position."""
        return self.depth_blocks * self.elements.products

    @property
    def is_merged(self) -> bool:
        """Whether what a position reads along the last axis of the window lies side by side."""
        return bool(self.kernel) and self.dilation[-1] == 1

    @property
    def run_blocks(self) -> int:
        """Words that lie side by side."""
        return self.depth_blocks * (self.kernel[-1] if self.is_merged else 1)

    @property
    def step_blocks(self) -> int:
        """Words whose products one instruction adds to each sum."""
        most = min(TILE_BYTES // WORD_BYTES, self.run_blocks)
        return max(each for each in range(1, most + 1) if self.run_blocks % each == 0)

    @property
    def weight_tiles(self) -> int:
        """Registers for weights, which are loaded alternately."""
        return min(self.channel_tiles, TILES - self.row_tiles * (self.channel_tiles + 1))

    @property
    def is_possible(self) -> bool:
        """Whether the registers suffice."""
        return self.rows <= TILE_ROWS and self.weight_tiles >= 1

    def cycles_of_sum(self) -> float:
        """An estimate of the least time, for each of its sums: of instructions, or of loads of two lines a cycle."""
        rows = self.row_tiles * self.rows
        loads = (rows + self.channel_tiles * self.step_blocks) / 2
        steps = self.depth_blocks * math.prod(self.kernel) / self.step_blocks
        return steps * max(rows * self.channel_tiles, loads) / (rows * self.channel_tiles * SUMS)

    @property
    def clearing(self) -> str:
        """The name of the first part."""
        return self._named("clear")

    @property
    def adding(self) -> str:
        """The name of the second part."""
        return self._named("add")

    def _named(self, part: str) -> str:
        results = f"{self.row_tiles}x{self.rows}x{self.channel_tiles}"
        window = f"{_joined(self.kernel)}_{self.stride}_{_joined(self.dilation)}"
        return f"{_PREFIX}{self.elements.name}_{part}_{results}_{self.depth_blocks}_{window}"


def tiles_named(name: str) -> MatrixTiles | None:
    """The shapes of the intrinsic with this name; None if there is none."""
    matched = _NAME.fullmatch(name)
    if matched is None:
        return None
    named, _, row_tiles, rows, channel_tiles, blocks, kernel, stride, dilation = matched.groups()
    window, steps = _split(kernel), _split(dilation)
    elements = next(each for each in TILE_ELEMENTS if each.name == named)
    counts = (int(row_tiles), int(rows), int(channel_tiles), int(blocks))
    tiles = MatrixTiles(*counts, window, int(stride), steps, elements)
    sizes = (tiles.row_tiles, tiles.rows, tiles.channel_tiles, tiles.depth_blocks, tiles.stride, *window, *steps)
    is_known = all(0 < each < _MAX_NUMBER for each in sizes) and len(window) == len(steps)
    return tiles if is_known and tiles.is_possible else None


def register_tiles(tiles: MatrixTiles) -> None:
    """Make both parts of an intrinsic known to TVM. Idempotent.

    Asks for the registers too: functions that TVM builds of records on its own, in this process, do not.
    """
    if TensorIntrin.get(tiles.adding, allow_missing=True) is not None:
        return
    are_granted()
    with quick_decorators():
        for name, head, description, implementation in (
            (tiles.clearing, _HEAD_OF_SUMS, _CLEARED, _clearing(tiles)),
            (tiles.adding, _HEAD, _added(tiles), _adding(tiles)),
        ):
            TensorIntrin.register(name, *(_parsed(head + body, tiles) for body in (description, implementation)))


_HEAD_OF_SUMS: Final = """
@T.prim_func(s_tir=True)
def intrinsic(c: T.handle) -> None:
    pitch = T.int32()
    C = T.match_buffer(c, ({positions}, {channels}), "{sums}", strides=[pitch, 1], offset_factor=1)
    with T.sblock("root"):
        T.reads()
        T.writes(C[0:{positions}, 0:{channels}])
"""
_CLEARED: Final = """
        for i, j in T.grid({positions}, {channels}):
            with T.sblock("clear"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.{sums}(0)
"""
_HEAD: Final = """
@T.prim_func(s_tir=True)
def intrinsic(a: T.handle, b: T.handle, c: T.handle) -> None:
    {pitches} = {integers}
    A = T.match_buffer(a, {activations}, "{activation}", strides={strides}, offset_factor=1)
    B = T.match_buffer(b, {weights}, "{weight}", offset_factor=1)
    C = T.match_buffer(c, ({positions}, {channels}), "{sums}", strides=[pitch, 1], offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0:{positions}, 0:{channels}], A[{activation_region}], B[{weight_region}])
        T.writes(C[0:{positions}, 0:{channels}])
"""


def _added(tiles: MatrixTiles) -> str:
    extents = {"i": tiles.positions, "j": tiles.channels}
    extents |= {f"k{at}": extent for at, extent in enumerate(tiles.kernel) if extent > 1}
    if tiles.depth_blocks > 1:
        extents["n"] = tiles.depth_blocks
    extents["d"] = tiles.elements.products
    kinds = "SS" + "R" * (len(extents) - 2)
    places = [f"v_k{at}" if extent > 1 else "0" for at, extent in enumerate(tiles.kernel)]
    block = "v_n" if tiles.depth_blocks > 1 else "0"
    channel, lane = ("v_j // 16", "v_j % 16") if tiles.channel_tiles > 1 else ("0", "v_j")
    weight = ", ".join([channel, "0", *places, block, lane, "v_d"])
    moved = [_product(place, dilation) for place, dilation in zip(places, tiles.dilation, strict=True)]
    position = _product("v_i", tiles.stride)
    moved = [*moved[:-1], _sum(position, moved[-1])] if moved else [position]
    depth = _sum(_product(block, tiles.elements.products), "v_d")
    return f"""
        for {", ".join(extents)} in T.grid({", ".join(map(str, extents.values()))}):
            with T.sblock("add"):
                {", ".join(f"v_{each}" for each in extents)} = T.axis.remap("{kinds}", [{", ".join(extents)}])
                C[v_i, v_j] = C[v_i, v_j] + (
                    T.cast(A[{", ".join([*moved, depth])}], "{tiles.elements.sums}")
                    * T.cast(B[{weight}], "{tiles.elements.sums}")
                )
"""


def _clearing(tiles: MatrixTiles) -> str:
    """Bytes 16 to 47 of the configuration are the bytes of a row of each tile, bytes 48 to 55 the rows."""
    sums, step = tiles.row_tiles * tiles.channel_tiles, tiles.step_blocks * WORD_BYTES
    shapes = [
        *[(tiles.rows, TILE_BYTES)] * sums,
        *[(tiles.rows, step)] * tiles.row_tiles,
        *[(tiles.step_blocks, TILE_BYTES)] * tiles.weight_tiles,
    ]
    shapes += [(0, 0)] * (TILES - len(shapes))
    words = [1, 0, 0, 0]
    words += [shapes[at][1] | shapes[at + 1][1] << 16 for at in range(0, TILES, 2)]
    words += [0] * 4
    words += [sum(shapes[at + byte][0] << 8 * byte for byte in range(4)) for at in (0, 4)]
    words += [0, 0]
    lines = [f'configuration = T.alloc_buffer(({_WORDS},), "int32")']
    lines += [f"configuration[{at}] = {word}" for at, word in enumerate(words)]
    lines.append(_called(CONFIGURE, "T.address_of(configuration[0])"))
    lines += [_called(CLEAR, _tile(at)) for at in range(sums)]
    return _body(lines)


def _adding(tiles: MatrixTiles) -> str:
    sums, step = tiles.row_tiles * tiles.channel_tiles, tiles.step_blocks
    pitch_bytes = tiles.stride * tiles.depth_blocks * WORD_BYTES
    loops = {f"k{at}": extent for at, extent in enumerate(tiles.kernel[:-1] if tiles.is_merged else tiles.kernel)}
    loops["n"] = tiles.run_blocks // step
    lines = []
    for row in range(tiles.row_tiles):
        loaded = _activations(tiles, row * tiles.rows)
        lines += _moved(LOAD, sums + row, loaded, f"T.int64({pitch_bytes})")
    for channel in range(tiles.channel_tiles):
        weights = sums + tiles.row_tiles + channel % tiles.weight_tiles
        lines += _moved(LOAD, weights, _weights(tiles, channel), f"T.int64({TILE_BYTES})")
        for row in range(tiles.row_tiles):
            summed = row * tiles.channel_tiles + channel
            lines.append(_called(tiles.elements.multiply, _tile(summed), _tile(sums + row), _tile(weights)))
    stores = []
    for row in range(tiles.row_tiles):
        for channel in range(tiles.channel_tiles):
            first = f"C[{row * tiles.rows}, {channel * SUMS}]"
            last = f"C[{row * tiles.rows + tiles.rows - 1}, {channel * SUMS + SUMS - 1}]"
            pitch = 'T.cast(pitch, "int64") * T.int64(4)'
            stores += _moved(STORE, row * tiles.channel_tiles + channel, (first, last), pitch)
    head = f"        for {', '.join([*loops, '_'])} in T.grid({', '.join(map(str, [*loops.values(), 1]))}):\n"
    return head + _body(lines, indent=12) + _body([*stores, _called(RELEASE)])


def _activations(tiles: MatrixTiles, position: int) -> tuple[str, str]:
    """The first and the last element of a tile. Those of the next position follow those of one."""
    *outer, along = [_product(f"k{axis}", dilation) for axis, dilation in enumerate(tiles.dilation)] or ["0"]
    moved, step = "0" if tiles.is_merged else along, tiles.step_blocks * tiles.elements.products
    first, last = (_sum(str(tiles.stride * each), moved) for each in (position, position + tiles.rows - 1))
    begin, end = [*outer, first, f"n * {step}"], [*outer, last, f"n * {step} + {step - 1}"]
    return f"A[{', '.join(begin)}]", f"A[{', '.join(end)}]"


def _weights(tiles: MatrixTiles, channel: int) -> tuple[str, str]:
    """The first and the last element of a tile."""
    places = [f"k{axis}" for axis in range(len(tiles.kernel))]
    if tiles.is_merged:
        places[-1] = "0"
    front, step = ", ".join([str(channel), "0", *places]), tiles.step_blocks
    last = f"n * {step} + {step - 1}, {SUMS - 1}, {tiles.elements.products - 1}"
    return f"B[{front}, n * {step}, 0, 0]", f"B[{front}, {last}]"


def _parsed(text: str, tiles: MatrixTiles) -> Any:
    window = [(extent - 1) * step + 1 for extent, step in zip(tiles.kernel, tiles.dilation, strict=True)]
    reached = (tiles.positions - 1) * tiles.stride + (window[-1] if window else 1)
    activations = [*window[:-1], reached, tiles.depth]
    weights = [tiles.channel_tiles, 1, *tiles.kernel, tiles.depth_blocks, SUMS, tiles.elements.products]
    pitches = [f"pitch_{at}" for at in range(len(window) - 1)]
    values = {
        "activation": tiles.elements.activation,
        "weight": tiles.elements.weight,
        "sums": tiles.elements.sums,
        "positions": tiles.positions,
        "channels": tiles.channels,
        "pitches": ", ".join([*pitches, "pitch"]),
        "integers": ", ".join(["T.int32()"] * (len(pitches) + 1)),
        "activations": f"({', '.join(map(str, activations))})",
        "strides": f"[{', '.join([*pitches, str(tiles.depth), '1'])}]",
        "weights": f"({', '.join(map(str, weights))})",
        "activation_region": ", ".join(f"0:{extent}" for extent in activations),
        "weight_region": ", ".join(f"0:{extent}" for extent in weights),
    }
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return tvm.script.from_source(text.strip() + "\n")


def _called(intrinsic: str, *arguments: str) -> str:
    given = ", ".join([f'T.llvm_lookup_intrinsic_id("{intrinsic}")', *arguments])
    return f'T.evaluate(T.call_llvm_intrin({given}, dtype="void"))'


def _moved(intrinsic: str, tile: int, ends: tuple[str, str], pitch: str) -> list[str]:
    """Between a tile and memory. The last element is read as well, without effect: a check sees where accesses end."""
    first, last = ends
    return [f"T.evaluate({last})", _called(intrinsic, _tile(tile), f"T.address_of({first})", pitch)]


def _tile(number: int) -> str:
    return f"T.uint8({number})"


def _body(lines: list[str], indent: int = 8) -> str:
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def _sum(*terms: str) -> str:
    kept = [each for each in terms if each != "0"]
    return " + ".join(kept) or "0"


def _product(factor: str, number: int | str) -> str:
    if "0" in (factor, str(number)):
        return "0"
    if str(number) == "1":
        return factor
    return f"({factor}) * ({number})" if "+" in f"{factor}{number}" else f"{factor} * {number}"


def _joined(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers)) or "none"


def _split(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(each) for each in text.split("x"))
