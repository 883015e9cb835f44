"""Changes to bytes, to plain data and to archives of arrays, decided by random numbers."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

Members = dict[str, bytes]

WORDS = (
    "", " ", "-", "~", "null", "true", "NaN", "inf", "-inf", "1e400", "0", "-1", "1/0", "0/1", "1/3", "01", "1_0",
    "0x10", "é", "\u202e", "\ud800", "\u2028", "\x00", "\x1b[31m", "a\nb", "a\r\nb", "</script>", "=1+1", "../x",
    "/etc/passwd",
    "𝟙", "x" * 3000, "9" * 5000, "(" * 400, "%s%n", "{0}", "\ufeff", "١", "²",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 63, 64, 255, 1000, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**27, 10**400,
    -(2**63), -(10**30), 0.0, -0.0, 0.5, 1.5, 1e-320, 1e-9, 1e300, -1e300, 1e308, float("nan"), float("inf"),
    float("-inf"),
)  # fmt: skip


def scalar(rng: Random) -> Any:
    """Something that is neither a list nor a mapping."""
    return rng.choice([rng.choice(WORDS), rng.choice(NUMBERS), None, True, False, rng.randrange(100)])


def nested(rng: Random) -> Any:
    """Something odd, now and then deep."""
    if rng.random() < 0.05:
        result: Any = scalar(rng)
        for _ in range(rng.choice([3, 30, 300])):
            result = [result] if rng.random() < 0.7 else {"a": result}
        return result
    return rng.choice([[], {}, [scalar(rng)], {"a": scalar(rng)}, [[scalar(rng)]], scalar(rng), scalar(rng)])


# --- bytes ------------------------------------------------------------------------------------------------------------


def in_bytes(rng: Random, data: bytes) -> bytes:
    """A few changes of bytes: flipped, cut, doubled, moved, overwritten."""
    result = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        rng.choice(_BYTES)(rng, result)
    return bytes(result)


def _place(rng: Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _put(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice([0, 9, 10, 13, 34, 44, 58, 92, 127, 128, 255, rng.randrange(256)])


def _cut(rng: Random, data: bytearray) -> None:
    low = _place(rng, data)
    del data[low : low + rng.choice([1, 4, 64, len(data)])]


def _insert(rng: Random, data: bytearray) -> None:
    low = _place(rng, data)
    word = rng.choice(
        [*WORDS, "\t", "  ", '"', "'", "[", "]", "{", "}", ",", ":", "&a ", "*a", "!!x ", "- ", "\n", "#"]
    )
    data[low:low] = word.encode("utf-8", "surrogatepass")


def _double(rng: Random, data: bytearray) -> None:
    low = _place(rng, data)
    data[low:low] = data[low : low + rng.choice([1, 8, 200])] * rng.choice([1, 1, 2, 50])


def _number(rng: Random, data: bytearray) -> None:
    if len(data) > 8:
        low = rng.randrange(len(data) - 8)
        data[low : low + 4] = struct.pack("<I", rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1]))


_BYTES: tuple[Callable[[Random, bytearray], None], ...] = (_flip, _flip, _put, _cut, _insert, _insert, _double, _number)


# --- plain data -------------------------------------------------------------------------------------------------------


def in_data(rng: Random, data: Any, changes: int | None = None) -> list[str]:
    """Change plain data in place; says what was done."""
    done = []
    for _ in range(changes or rng.choice([1, 1, 1, 2, 3])):
        holder, key = _anywhere(rng, data)
        if holder is not None:
            done.append(_change(rng, data, holder, key))
    return done


def _anywhere(rng: Random, data: Any) -> tuple[Any, Any]:
    """A random place, each level as likely as the others: walk down, and stop somewhere."""
    holder, key = None, None
    while isinstance(data, dict | list) and data:
        holder = data
        key = rng.choice(list(data)) if isinstance(data, dict) else rng.randrange(len(data))
        data = data[key]
        if rng.random() < 0.2:
            break
    return holder, key


def _change(rng: Random, data: Any, holder: Any, key: Any) -> str:
    old = holder[key]
    action = rng.choice(["drop", "scalar", "scalar", "nested", "near", "near", "near", "copy", "more", "rename"])
    if action == "drop":
        del holder[key]
    elif action == "near":
        holder[key] = _near(rng, old)
    elif action == "copy":
        other, place = _anywhere(rng, data)
        holder[key] = _copied(other[place]) if _depth(other[place]) < 12 else None
    elif action == "more" and isinstance(old, list) and len(old) < 2000:
        old.extend(_copied(old[: rng.choice([1, len(old)])]) or [scalar(rng)])
    elif action == "more" and isinstance(old, dict):
        old[str(scalar(rng))[:50]] = nested(rng)
    elif action == "rename" and isinstance(holder, dict):
        holder[str(rng.choice([scalar(rng), f"{key}s", key[:-1]]))[:50]] = holder.pop(key)
    else:
        holder[key] = nested(rng) if action == "nested" else scalar(rng)
    return f"{action} at {key!r}"


def _copied(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _copied(v) for k, v in data.items()}
    return [_copied(v) for v in data] if isinstance(data, list) else data


def _depth(data: Any, most: int = 14) -> int:
    children = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + max((_depth(c, most - 1) for c in children), default=0) if most else 1


def _near(rng: Random, old: Any) -> Any:
    """A value that is almost the old one."""
    if isinstance(old, bool) or old is None:
        return rng.choice([not old, 1, "x"])
    if isinstance(old, int):
        return rng.choice(
            [old + 1, old - 1, -old, old * 2, old * 1000, float(old) if abs(old) < 1e300 else 0, str(old)[:99]]
        )
    if isinstance(old, float):
        return rng.choice([old * 2, -old, old * 1e-9, old * 1e9, old + 1e-12, int(old) if abs(old) < 1e300 else 0])
    if isinstance(old, str):
        return in_text(rng, old)
    if isinstance(old, list):
        return rng.choice([old[::-1], old[:-1], old[1:], old * 2 if len(old) < 500 else [], [old]])
    return dict(list(old.items())[::-1])


def in_text(rng: Random, text: str) -> str:
    """A text with a letter or a word more, less or other; digits stay digits."""
    place = rng.randrange(len(text) + 1)
    digit = re.sub(r"[0-9]", lambda m: str(rng.randrange(10)), text, count=1)
    cut = text[:place] + text[place + 1 :]
    return rng.choice([cut, digit, text + text, text.upper(), text[:place] + rng.choice(WORDS)[:100] + text[place:]])


# --- archives ---------------------------------------------------------------------------------------------------------


def members_of(archive: bytes) -> Members:
    """What is in an archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def archived(members: Members, packed: bool = False) -> bytes:
    """An archive of these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as file:
        for name, member in members.items():
            named = name.encode("utf-8", "replace").decode()  # an archive has no lone surrogates
            file.writestr(zipfile.ZipInfo(named), member)  # without the time of day
    return stream.getvalue()


def in_archive(rng: Random, archive: bytes, others: list[bytes] | None = None) -> tuple[bytes, str]:
    """An archive whose members were changed, with their checksums right; and how."""
    if rng.random() < 0.001:
        return bomb(rng.choice([256, 1500])), "bomb"
    members = members_of(archive)
    done = []
    for _ in range(rng.choice([1, 1, 2])):
        if members:
            name = rng.choice(list(members))
            action = rng.choice(
                ["drop", "header", "header", "header", "bytes", "bytes", "rename", "swap", "cut", "other"]
            )
            done.append(f"{action} {name}")
            _member(rng, members, name, action, others or [])
    return archived(members, packed=rng.random() < 0.3), ", ".join(done)


def _member(rng: Random, members: Members, name: str, action: str, others: list[bytes]) -> None:
    member = members[name]
    if action == "drop":
        del members[name]
    elif action == "rename":
        members[rng.choice([f"{name}x", name.upper(), "../" + name, "x.npy", in_text(rng, name)])[:99]] = members.pop(
            name
        )
    elif action == "swap":
        other = rng.choice(list(members))
        members[name], members[other] = members[other], member
    elif action == "cut":
        members[name] = member[: rng.randrange(len(member) + 1)]
    elif action == "other" and others:
        members[name] = rng.choice(list(members_of(rng.choice(others)).values()) or [b""])
    elif action == "header" and member.startswith(b"\x93NUMPY"):
        members[name] = in_npy(rng, member)
    else:
        members[name] = in_bytes(rng, member)


_TYPES = ("<i2", "<i4", "<i8", ">i8", "<f8", "<f4", "<u8", "|u1", "|b1", "<U1", "<U9999", "<U99999999", "|O", "|V8",
          "<c16", "<M8[s]", "|S9", "[('a', '<i8')]")  # fmt: skip
_SHAPES = ("", "0,", "1,", "-1,", "7,", "3, 5", "1, 1, 1", "99999999999,", "4294967296, 4294967296", "9" * 400 + ",",
           "2, 0", "1000000000,", "0, 99999999999")  # fmt: skip


def in_npy(rng: Random, member: bytes) -> bytes:
    """An array whose header says something else than its numbers; the length of the header stays right."""
    if len(member) < 10:  # cut before the length
        return member
    length = struct.unpack("<H", member[8:10])[0]
    head, rest = member[10 : 10 + length].decode("latin-1"), member[10 + length :]
    if rng.random() < 0.5:
        kind = rng.choice(_TYPES)
        head = re.sub(r"'descr': '[^']*'", f"'descr': {kind}" if kind[0] == "[" else f"'descr': '{kind}'", head)
    if rng.random() < 0.5:
        head = re.sub(r"'shape': \([^)]*\)", f"'shape': ({rng.choice(_SHAPES)})", head)
    if rng.random() < 0.1:
        head = head.replace("False", rng.choice(["True", "None", "1"]))
    if rng.random() < 0.1:
        head = in_text(rng, head)
    raw = head.rstrip().encode("utf-8", "surrogatepass") + b"\n"
    return member[:8] + struct.pack("<H", min(len(raw), 65535)) + raw + rest


@cache
def bomb(megabytes: int) -> bytes:
    """A small archive with an array of many zeros in it."""
    count = megabytes * 2**20 // 8
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({count},), }}".encode()
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.ljust(117) + b"\n"
    packer = zlib.compressobj(9, wbits=-15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)  # needs nothing before it, so it repeats
    packed, crc = first + piece * megabytes + packer.flush(), 0  # whoever comes to check it has unpacked all of it
    name, size = b"table.npy", len(head) + megabytes * 2**20
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(packed), size, len(name), 0)
    local = b"PK\x03\x04" + fields + name + packed
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
