"""Bytes as Kafka's serializers write them: big-endian and signed; by Spark's columns alone."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill.reconciliation.stream_files import Once

_MANTISSA = (1 << 52) - 1


def from_hex(text: Column) -> Column:
    """The bytes in hexadecimal text; NULL if it is not valid."""
    valid = text.rlike("^[0-9A-Fa-f]*$") & (F.length(text) % 2 == 0)
    return F.when(valid, F.try_to_binary(text, F.lit("hex")))


def from_base64(text: Column) -> Column:
    """The bytes in base64, with or without padding; NULL if it is not valid."""
    valid = text.rlike("^[A-Za-z0-9+/]*={0,2}$") & (F.length(F.rtrim(text, F.lit("="))) % 4 != 1)
    return F.when(valid, F.try_to_binary(text, F.lit("base64")))


def long_at(data: Column, place: int, length: int = 8) -> Column:
    """A number of 8 bytes (or fewer, then without a sign), `place` bytes before the end."""
    digits = F.hex(F.substring(data, -place, length))
    # To base -10: signed.
    return F.conv(digits, 16, -10).try_cast("bigint")


def utf8(data: Column) -> Column:
    """Text; NULL where the bytes are not valid UTF-8."""
    return F.try_validate_utf8(data.cast("string"))


def double(bits: Column, once: Once) -> Column:
    """The double (IEEE 754) of these 64 bits, exactly."""
    exponent = once(F.shiftright(bits, 52).bitwiseAND(F.lit(0x7FF)))
    fraction = bits.bitwiseAND(F.lit(_MANTISSA))
    # The value is a whole number below 2**53 times a power of two; without a leading bit for the
    # smallest ones.
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
