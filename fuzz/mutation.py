"""Mutations of text and JSON values: small ones, so that input stays mostly valid and reaches deep code."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

SCALARS: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, 1e308, -0.0, 1e-320),
    *("", "0", "-1", "None", "NaN", "Infinity", "main", "int64", "float32", "handle", "void", "bool", "float32x0"),
    *("ffi.String", "ffi.Array", "ffi.Map", "ffi.Module", "ir.IRModule", "tirx.PrimFunc", "ir.Call", "ir.Op", "str"),
    *("tirx.call_extern", "tirx.call_packed", "pragma_import_c", "pragma_import_llvm", "system", "SampleCategorical"),
    *("\x00", "\n", "\x1b[2J", "\u202e", "\ud800", "../../etc/passwd", "{{7*7}}", "%s%n", "9" * 400, "a" * 5000),
    *("lambda i, j: (j, i)", "tirx.IndexMap", "global", "shared", "threadIdx.x", "[" * 200, '{"root_index": 0}'),
)
BYTES: Final = (b"\x00", b"\xff", b"\x80", b"\n", b"\r\n", b'"', b"{", b"[", b"\\u0000", b"\xed\xa0\x80", b"1e999")


def mutated_json(text: str, chance: random.Random, pool: Sequence[Any] = ()) -> str:
    """Valid JSON with one to four nodes changed. ``pool`` holds values that the reader interprets."""
    value = json.loads(text)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        value = _changed(value, chance, pool)
    try:
        return json.dumps(value)
    except RecursionError:
        return text


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to eight places overwritten, removed, repeated or filled with special values."""
    changed = bytearray(content or b"\0")
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) or 1)
        length = chance.choice((1, 2, 4, 8, 64))
        match chance.randrange(6):
            case 0 | 1:
                changed[at : at + 1] = bytes((chance.randrange(256),))
            case 2:
                number = chance.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(content)))
                changed[at : at + 8] = number.to_bytes(8, "little")
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[at : at + length]
            case _:
                changed[at:at] = chance.choice(BYTES)
    return bytes(changed)


def _changed(value: Any, chance: random.Random, pool: Sequence[Any]) -> Any:
    places = list(_places(value))
    if not places:
        return _scalar(chance, pool)
    holder, key = chance.choice(places)
    changes: Sequence[Callable[[], None]] = (
        lambda: holder.__setitem__(key, _scalar(chance, pool)),
        lambda: holder.__setitem__(key, _near(holder[key], chance)),
        lambda: holder.__setitem__(key, _near(holder[key], chance)),
        lambda: holder.__delitem__(key),
        lambda: _copied(places, holder, key, chance),
        lambda: _inserted(holder, chance, pool),
        lambda: holder.__setitem__(key, _nested(holder[key], chance)),
    )
    chance.choice(changes)()
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a value, without recursion."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            found.append((each, key))
            waiting.append(each[key])
    return found


def _scalar(chance: random.Random, pool: Sequence[Any]) -> Any:
    return chance.choice(pool) if pool and chance.random() < 0.6 else chance.choice(SCALARS)


def _near(value: Any, chance: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + chance.choice((-1, 1, -2, 2, 8, 2**31, -value, -2 * value))
        case float():
            return value * chance.choice((-1, 0, 2, 1e300))
        case str() if value.startswith(("{", "[")) and chance.random() < 0.8:
            try:
                return mutated_json(value, chance)  # text inside text
            except ValueError:
                return value[: chance.randrange(len(value))]
        case str():
            return value[: chance.randrange(len(value) + 1)] + chance.choice(("", "x", "\x00", "\n", value))
        case list():
            return chance.sample(value, chance.randrange(len(value) + 1))
        case _:
            return [value]


def _copied(places: list[tuple[Any, Any]], holder: Any, key: Any, chance: random.Random) -> None:
    other, other_key = chance.choice(places)
    # Through text, because a value that contains itself could not be serialised.
    holder[key] = json.loads(json.dumps(other[other_key]))


def _inserted(holder: Any, chance: random.Random, pool: Sequence[Any]) -> None:
    if isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), _scalar(chance, pool))
    else:
        holder[str(_scalar(chance, pool))] = _scalar(chance, pool)


def _nested(value: Any, chance: random.Random) -> Any:
    for _ in range(chance.choice((1, 2, 30, 300))):
        value = [value] if chance.random() < 0.5 else {"data": value}
    return value
