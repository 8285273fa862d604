"""Damaged files: bits, cuts and splices of any file; JSON, tables and archives also in ways that keep their form."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Random = np.random.Generator
_RAW = "@raw@"
# What replaces a value of JSON, as it stands in the file.
_NASTY = [
    "null", "true", "false", "0", "-1", "1", "0.5", "-0.0", "1e308", "1e400", "-1e400", "NaN", "Infinity", "-Infinity",
    "1" * 402, "9223372036854775808", "[]", "{}", "[[]]", "[null]", '[{"a": 1}]', '""', '"x"', '"NaN"', '"../.."',
    '"\\ud800"', '"\\u0000"', '"\\u001b[31mred"', '"=1+1"', f'"{"long " * 2000}"', '{"": 1}', '{"__class__": "os"}',
    "[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 100_000, "[1, 2", "'x'", "",
]  # fmt: skip


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """One to three changes: a bit, a byte, a number of several bytes, a piece cut out, doubled or moved, an end."""
    data = bytearray(content)
    for _ in range(random.integers(1, 4)):
        reach = min(len(data), 300) if random.random() < 0.4 else len(data)
        at = int(random.integers(0, max(reach, 1)))
        length = int(random.integers(1, 40))
        match random.integers(0, 8):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << int(random.integers(0, 8))
            case 2:
                data[at : at + 1] = bytes([int(random.integers(0, 256))])
            case 3:
                layout = str(random.choice(["<H", ">H", "<I", ">I", "<Q", ">Q"]))
                size = struct.calcsize(layout)
                value = int(random.choice([0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**40, 2**63 - 1]))
                data[at : at + size] = struct.pack(layout, value & (256**size - 1))
            case 4:
                del data[at : at + length]
            case 5:
                data[at:at] = data[at : at + length]
            case 6:
                other = int(random.integers(0, max(len(data), 1)))
                data[at : at + length] = data[other : other + length]
            case 7 if random.random() < 0.5:
                del data[at:]
    return bytes(data)


def mutate_json(content: bytes, random: Random) -> bytes:
    """A JSON document with a value of another kind, a key missing, twice or misspelt, a list longer or turned round."""
    if random.random() < 0.15:
        return mutate_bytes(content, random)
    document = json.loads(content)
    holder, key = _place(document, random)
    raw = str(random.choice(_NASTY))
    match random.integers(0, 8) if isinstance(holder, dict) else random.integers(3, 11):
        case 0:
            del holder[key]
        case 1:
            holder[f"{key}x"] = holder.pop(key)
        case 2:
            raw = json.dumps(key) + ": " + raw + ", " + json.dumps(key) + ": " + json.dumps(holder[key])
            return json.dumps(document).replace(json.dumps(key) + ": " + json.dumps(holder[key]), raw, 1).encode()
        case 8:
            holder.reverse()
        case 9:
            holder.append(holder[key])
        case 10:
            del holder[key]
        case _:
            holder[key] = _RAW
    return json.dumps(document).replace(f'"{_RAW}"', raw).encode("utf-8", "surrogatepass")


def _place(document: Any, random: Random) -> tuple[Any, Any]:
    """Somewhere in a document: a dictionary or list, and a key or place in it; rather near the top."""
    holder, key = {"": document}, ""
    for _ in range(100):
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or (holder is not inner and random.random() < 0.25):
            break
        holder = inner
        key = list(inner)[random.integers(len(inner))] if isinstance(inner, dict) else int(random.integers(len(inner)))
    if holder == {"": document}:
        holder, key = document, next(iter(document)) if isinstance(document, dict) else 0
    return holder, key


def mutate_lines(content: bytes, random: Random) -> bytes:
    """Lines of JSON: one of them changed, doubled, moved or cut."""
    lines = content.splitlines()
    at = int(random.integers(len(lines)))
    match random.integers(0, 6):
        case 0:
            lines.insert(int(random.integers(len(lines) + 1)), lines[at])
        case 1:
            lines[at] = lines[at][: int(random.integers(len(lines[at])))]
        case 2:
            return mutate_bytes(content, random)
        case _:
            lines[at] = mutate_json(lines[at], random)
    return b"\n".join(lines) + (b"\n" if random.random() < 0.8 else b"")


_CELLS = ["", "NA", "nan", "inf", "1e400", "-", "=1+1", '"', '""', "x", "1,5", "85%", "yes", "\x00", "\x1b[2J", "ж",
          "'", "9" * 400, ";", "\t", "1_000", "0x10", "x" * 5000, "\r", "﻿", "\udcff"]  # fmt: skip


def mutate_table(content: bytes, random: Random) -> bytes:
    """A CSV file with another cell, a cell too many or too few, another separator, encoding, heading or order."""
    if random.random() < 0.25:
        return mutate_bytes(content, random)
    rows = [line.split(",") for line in content.decode().splitlines()]
    row = rows[0 if random.random() < 0.25 else int(random.integers(len(rows)))]
    at, cell = int(random.integers(len(row))), str(random.choice(_CELLS))
    match random.integers(0, 9):
        case 0:
            row.append(cell)
        case 1:
            del row[at]
        case 2:
            rows.append(list(row))
        case 3:
            del rows[rows.index(row)]
        case 4:
            random.shuffle(rows)
        case _:
            row[at] = cell
    separator = str(random.choice([",", ",", ",", ",", ";", "\t", " ", "|"]))
    text = "\n".join(map(separator.join, rows))
    encoding = str(random.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return text.encode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")


def mutate_archive(content: bytes, random: Random) -> bytes:
    """An .npz file, damaged or in order with an array of another shape, type, content, or none."""
    if random.random() < 0.4:
        return mutate_bytes(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(random.choice(list(members)))
    match random.integers(0, 6):
        case 0:
            del members[name]
        case 1:
            members[name] = members[str(random.choice(list(members)))]
        case 2:
            members[name] = mutate_bytes(members[name], random)
        case 3:
            members[name] = _with_other_header(members[name], random)
        case _:
            members[name] = _with_other_array(members[name], random)
    buffer = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if random.random() < 0.5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def mutate_array(content: bytes, random: Random) -> bytes:
    """An .npy file."""
    return [mutate_bytes, _with_other_header, _with_other_array][int(random.integers(3))](content, random)


def _with_other_header(content: bytes, random: Random) -> bytes:
    """A false promise of shape and type before the same bytes."""
    size = int.from_bytes(content[8:10], "little")
    shape = str(random.choice(["()", "(0,)", "(10**10,)", "(2**62, 4)", "(-1,)", "(3, 100000, 100000)", "(1.5,)"]))
    kind = str(random.choice(["<f4", "<f8", "|V0", "|O", "<U0", "<U100000", "<i8", "|b1", "<c16", "<M8[s]", "x"]))
    header = f"{{'descr': '{kind}', 'fortran_order': {random.choice(['True', 'False', '3'])}, 'shape': {shape}, }}"
    header = header.ljust(size - 1)[: max(size - 1, len(header))] + "\n"
    return content[:8] + len(header).to_bytes(2, "little") + header.encode() + content[10 + size :]


def _with_other_array(content: bytes, random: Random) -> bytes:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    flat = array.reshape(-1)
    changes: list[Callable[[], np.ndarray]] = [
        lambda: array[..., None],
        lambda: flat,
        lambda: flat[: len(flat) // 2],
        lambda: array[:0],
        lambda: array.astype(str),
        lambda: array.astype("S10") if array.dtype.kind != "U" else flat.astype("U1"),
        lambda: np.zeros(array.shape, dtype="f8") * np.nan,
        lambda: np.full(array.shape, np.inf),
        lambda: np.full(array.shape, 1e300),
        lambda: np.full(array.shape, -1),
        lambda: np.full(array.shape, 2**62),
        lambda: np.zeros(array.shape, dtype=bool),
        lambda: np.zeros(array.shape, dtype="M8[s]"),
        lambda: np.zeros(array.shape, dtype=complex),
        lambda: np.zeros(array.shape, dtype=[("a", "i4"), ("b", "f8")]),
        lambda: np.broadcast_to(flat[:1], array.shape),
        lambda: np.concatenate([array, array]) if array.ndim else array[None],
        lambda: np.array(5),
    ]
    buffer = io.BytesIO()
    try:
        np.save(buffer, changes[int(random.integers(len(changes)))](), allow_pickle=False)
    except (TypeError, ValueError, IndexError):  # not every array can become every other
        return mutate_bytes(content, random)
    return buffer.getvalue()


BY_SUFFIX: dict[str, Callable[[bytes, Random], bytes]] = {
    ".json": mutate_json,
    ".jsonl": mutate_lines,
    ".csv": mutate_table,
    ".npz": mutate_archive,
    ".npy": mutate_array,
}
