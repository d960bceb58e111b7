# SPDX-License-Identifier: LGPL-2.1-or-later
"""Packs values into the payload that an event's description defines: see userevd-protocol(7), EVENT DESCRIPTIONS."""

import re
import struct

_CODES = {
    "s8": "b", "u8": "B", "char": "b", "unsigned char": "B", "s16": "h", "u16": "H", "short": "h", "unsigned short": "H",
    "s32": "i", "u32": "I", "int": "i", "unsigned int": "I", "s64": "q", "u64": "Q",
}
_TEXTS = ("char", "unsigned char")
_EVENT = re.compile(r"[ \t]*(?P<name>[A-Za-z_]\w*)(?::\S*)?(?:[ \t]+(?P<fields>.*))?", re.A)
_STRUCT = re.compile(r"struct[ \t]+\w+[ \t]+(?P<name>\w+)[ \t]+(?P<size>\d+)", re.A)
_FIELD = re.compile(
    r"(?:(?P<locator>__rel_loc|__data_loc)[ \t]+)?(?P<type>(?:unsigned[ \t]+)?\w+)(?:\[(?P<size>\d*)\])?[ \t]+(?P<name>\w+)", re.A)

# A __data_loc offset counts from the start of the kernel's record, 8 bytes before the payload.
_DATA_LOC_BASE = -8
# Length and offset of a dynamic field have 16 bits each.
_DYNAMIC_MAX = 0xffff


class BadDescription(ValueError):
    pass


class TooBig(ValueError):
    pass


def float_bits(number):
    """The bits of a float, for a u32 field."""
    return struct.unpack("=I", struct.pack("=f", number))[0]


def double_bits(number):
    """The bits of a double, for a u64 field."""
    return struct.unpack("=Q", struct.pack("=d", number))[0]


def _bytes_of(value):
    """Encodes text as UTF-8. Characters that UTF-8 cannot represent are escaped instead of raising."""
    return value.encode("utf-8", "backslashreplace") if isinstance(value, str) else bytes(memoryview(value))


def _character(value):
    """A char is passed as a character or as a number, signed or unsigned."""
    if isinstance(value, int):
        return value - 256 if 127 < value < 256 else value
    return struct.unpack("b", _bytes_of(value))[0]


class _Fixed:
    """A fixed array or a struct. Longer values are an error, not truncated."""

    def __init__(self, size, is_text):
        self.size, self.is_text = size, is_text

    def __call__(self, value):
        data = _bytes_of(value)
        if len(data) > self.size or (len(data) < self.size and not self.is_text):
            raise ValueError(f"{len(data)} bytes for a field of {self.size}")
        return data


class _Dynamic:
    """The data of a dynamic field."""

    def __init__(self, type_):
        self.is_text, self.code = type_ in _TEXTS, _CODES[type_]

    def __call__(self, value):
        if self.is_text:
            data = _bytes_of(value)
            return data if data.endswith(b"\0") else data + b"\0"
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        return struct.pack(f"={len(value)}{self.code}", *value)


class Layout:
    """The fields of an event."""

    __slots__ = ("name", "names", "_fields", "_code", "_fixed", "_converters", "_dynamic", "_is_plain")

    def __init__(self, description):
        match = _EVENT.fullmatch(description)
        if not match:
            raise BadDescription("the description does not begin with a name")
        self.name, self.names = match["name"], ()
        self._code, self._converters, self._dynamic = "=", [], []
        self._fields = [field.strip(" \t") for field in (match["fields"] or "").split(";") if field.strip(" \t")]
        for field in self._fields:
            self._add(field)
        self._fixed = struct.Struct(self._code)
        self._is_plain = not self._converters and not self._dynamic

    def _add(self, field):
        match = _STRUCT.fullmatch(field)
        if match:
            self._add_fixed(int(match["size"]), is_text=False)
        else:
            match = _FIELD.fullmatch(field)
            self._add_typed(match, re.sub(r"[ \t]+", " ", match["type"]) if match else None)
        self.names += (match["name"],)

    def _add_typed(self, match, type_):
        if type_ not in _CODES:
            raise BadDescription(f"field {len(self.names) + 1} has an unknown type")
        if match["locator"]:
            self._add_dynamic(match["locator"], type_)
        elif match["size"]:
            self._add_fixed(int(match["size"]), is_text=True)
        else:
            if type_ in _TEXTS:
                self._converters.append((len(self.names), _character))
                type_ = "char"
            self._code += _CODES[type_]

    def _add_fixed(self, size, is_text):
        self._converters.append((len(self.names), _Fixed(size, is_text)))
        self._code += f"{size}s"

    def _add_dynamic(self, locator, type_):
        self._code += "I"
        base = struct.calcsize(self._code) if locator == "__rel_loc" else _DATA_LOC_BASE
        self._dynamic.append((len(self.names), _Dynamic(type_), base))

    def order(self, values, named):
        """All values in the order of the fields."""
        missing = self.names[len(values):]
        if set(named) != set(missing):
            raise TypeError(f"fields {', '.join(self.names) or '(none)'}: {len(values)} values, and {', '.join(named) or 'no names'}")
        return [*values, *(named[name] for name in missing)]

    def pack(self, values):
        if self._is_plain:
            return self._fixed.pack(*values)
        values, pieces, end = list(values), [], self._fixed.size
        for position, convert in self._converters:
            values[position] = convert(values[position])
        for position, data_of, base in self._dynamic:
            data = data_of(values[position])
            if end + len(data) > _DYNAMIC_MAX:
                raise TooBig
            values[position] = len(data) << 16 | end - base
            pieces.append(data)
            end += len(data)
        return self._fixed.pack(*values) + b"".join(pieces)

    def why_not(self, values, named):
        """The reason why pack() failed, with the name of the field: packs each value by itself. None if each can be packed."""
        if named:
            try:
                values = self.order(values, named)
            except TypeError as error:
                return str(error)
        if len(values) != len(self.names):
            return f"{len(values)} values for {len(self.names)} fields ({', '.join(self.names) or 'none'})"
        for name, field, value in zip(self.names, self._fields, values):
            try:
                Layout(f"_ {field}").pack((value,))
            except Exception as error:  # of any kind: conversions call methods of the value
                return f"{name}: {error}"
        return None
