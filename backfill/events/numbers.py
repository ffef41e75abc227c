"""Numbers since the epoch as whole microseconds: floored, exactly, and without exceptions.

Each takes the microseconds in one unit of the number (1,000,000, 1,000 or 1). What does not fit a
bigint is NULL; callers compare the number itself with the range they allow.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_NUMBER = r"^\s*[+-]?\d+(?:\.\d{1,18})?\s*$"


def integer_micros(value: Column, unit: int) -> Column:
    """A bigint."""
    return F.try_multiply(value, F.lit(unit).cast("bigint"))


def decimal_micros(value: Column, unit: int) -> Column:
    """A decimal of any precision and scale."""
    digits = len(str(unit)) - 1
    floored = F.floor(value, F.lit(digits)).try_cast(f"decimal(25,{digits})")
    return (floored * unit).try_cast("bigint")


def double_micros(value: Column, unit: int) -> Column:
    """A double, read as the shortest decimal number that stands for it (1431857103.1 is that).

    A double has up to 17 digits. With so many decimal places none of them is lost, but for numbers
    so near to zero that only their sign matters.
    """
    digits = len(str(unit)) - 1
    near = 10.0 ** -(digits + 1)
    exact = decimal_micros(value.try_cast(f"decimal(38,{18 + digits})"), unit)
    tiny = F.when(value < 0, F.lit(-1)).otherwise(F.lit(0)).cast("bigint")
    return F.when(F.abs(value) < near, tiny).otherwise(exact)


def text_micros(value: Column) -> tuple[Column, Column]:
    """A number in text, with up to 18 decimal places and no exponent.

    Returns:
        The number, as decimal(38,18), NULL where it is none or has more than 20 digits before
        the point; and whether it is a number.
    """
    is_number = value.rlike(_NUMBER)
    return F.when(is_number, F.trim(value).try_cast("decimal(38,18)")), is_number
