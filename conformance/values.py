"""The notation of values in the cases, from the values of each client."""

import datetime
import decimal
import hashlib
import json
import math
import struct

SHOWN_MAX = 200
ROWS_MAX = 50


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def single(value):
    """The shortest text that identifies a 32-bit float."""
    value = struct.unpack("f", struct.pack("f", value))[0]
    if not math.isfinite(value):
        return repr(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return repr(float(text))
    return repr(value)


def written(value, is_single=False):
    """The notation of a Python object."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return single(value) if is_single else repr(value)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc)
        return value.isoformat(sep=" ")
    if isinstance(value, (int, datetime.date, datetime.time)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value)
        return f"x'{value.hex()}'" if len(value) <= SHOWN_MAX else f"bytes of {len(value)}, sha256 {digest(value)}"
    if isinstance(value, str):
        encoded = value.encode()
        if len(encoded) > SHOWN_MAX:
            return f"text of {len(encoded)}, sha256 {digest(encoded)}"
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"a value of {type(value).__name__} has no form here")


def lines(rows, singles=()):
    """One line per row; for more than ROWS_MAX rows, their number and a hash."""
    out = [" | ".join(written(value, at in singles) for at, value in enumerate(row)) for row in rows]
    return summed(out)


def summed(lines):
    if len(lines) <= ROWS_MAX:
        return lines
    return [f"{len(lines)} rows, sha256 {digest(chr(10).join(lines).encode())}"]
