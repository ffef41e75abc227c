"""Bytes as Kafka's serializers write them: big-endian and signed. Uses only Spark's columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.reconciliation.output.files import Once
from backfill.runtimes.differences import Runtime

_MANTISSA = (1 << 52) - 1
_NEXT = "[89AB][0-9A-F]"
#: The hexadecimal digits of valid UTF-8 (Unicode, table 3-7).
_UTF8 = "^(?:{})*$".format(
    "|".join(
        (
            "[0-7][0-9A-F]",
            f"C[2-9A-F]{_NEXT}|D[0-9A-F]{_NEXT}",
            f"E0[AB][0-9A-F]{_NEXT}|E[1-9ABCEF](?:{_NEXT}){{2}}|ED[89][0-9A-F]{_NEXT}",
            f"F0[9AB][0-9A-F](?:{_NEXT}){{2}}|F[1-3](?:{_NEXT}){{3}}|F48[0-9A-F](?:{_NEXT}){{2}}",
        )
    )
)


def from_hex(text: Column) -> Column:
    """The bytes in hexadecimal text; NULL if it is not valid."""
    valid = text.rlike("^[0-9A-Fa-f]*$") & (F.length(text) % 2 == 0)
    return F.when(valid, F.try_to_binary(text, F.lit("hex")))


def from_base64(text: Column) -> Column:
    """The bytes in base64, with or without padding; NULL if it is not valid."""
    valid = text.rlike("^[A-Za-z0-9+/]*={0,2}$") & (F.length(F.rtrim(text, F.lit("="))) % 4 != 1)
    return F.when(valid, F.try_to_binary(text, F.lit("base64")))


def long_at(data: Column, place: int, runtime: Runtime, length: int = 8) -> Column:
    """A number of 8 bytes (or fewer, then without a sign), `place` bytes before the end."""
    if runtime.cuts_bytes:
        digits = F.hex(F.substring(data, -place, length))
        # To base -10: signed.
        return F.conv(digits, 16, -10).try_cast("bigint")
    # In halves, because all 8 bytes without a sign may be more than a bigint holds.
    high, low = (
        F.conv(F.substring(F.hex(data), -2 * at, 2 * size), 16, 10).try_cast("bigint")
        for at, size in ((place, length // 2), (place - length // 2, length // 2))
    )
    return F.shiftleft(high, 4 * length).bitwiseOR(low)


def all_but(data: Column, tail: int, runtime: Runtime) -> Column:
    """The bytes before the last ones."""
    length = F.length(data) - tail
    if runtime.cuts_bytes:
        return F.substring(data, F.lit(1), length)
    return F.unhex(F.substring(F.hex(data), F.lit(1), F.greatest(2 * length, F.lit(0))))


def utf8(data: Column, runtime: Runtime) -> Column:
    """Text; NULL where the bytes are not valid UTF-8."""
    if runtime.cuts_bytes:
        return F.try_validate_utf8(data.cast("string"))
    digits = F.hex(data)
    return F.unhex(F.when(digits.rlike(_UTF8), digits)).cast("string")


def double(bits: Column, once: Once) -> Column:
    """The double (IEEE 754) of these 64 bits, exactly."""
    exponent = once(F.shiftright(bits, 52).bitwiseAND(F.lit(0x7FF)))
    fraction = bits.bitwiseAND(F.lit(_MANTISSA))
    # The value is a whole number below 2**53 times a power of two; the smallest ones have no
    # leading bit.
    whole = F.when(exponent == 0, fraction).otherwise(fraction + (_MANTISSA + 1))
    power = once(F.greatest(exponent, F.lit(1)) - 1075)
    size = whole.cast("double")
    for i in reversed(range(11)):
        # Each step is exact, since each lies between the whole number and the value.
        up, down = F.lit(2.0 ** min(2**i, 1023)), F.lit(2.0 ** -(2**i))
        factor = F.when(power < 0, down).otherwise(up)
        is_set = F.shiftright(F.abs(power), i).bitwiseAND(F.lit(1)) == 1
        size = size * F.when(is_set, factor).otherwise(1.0)
    special = F.when(fraction == 0, F.lit(float("inf"))).otherwise(F.lit(float("nan")))
    size = F.when(exponent < 0x7FF, size).when(exponent == 0x7FF, special)
    return size * F.when(bits < 0, -1.0).otherwise(1.0)
