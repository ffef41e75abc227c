"""Numbers since the epoch as whole microseconds: floored, exactly, and without exceptions.

Each function takes the microseconds in one unit of the number (1,000,000, 1,000 or 1). What does
not fit a bigint is NULL; callers compare the number itself with the range they allow.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

DOUBLE_ERROR_US = 2
"""The µs that `double_micros` of a number can lie from the number; in fact it is 1.5 and a bit."""

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
    """A double, read as the decimal number that it was written as (1431857103.1 is exactly that).

    If a whole number of microseconds is written as this double, the result is that number (the
    nearest, if doubles are wider apart than microseconds, some 270 years from 1970); otherwise the
    double's own value is floored. Java's text of a double is not used: before Java 19 it is
    not always the shortest, and would give another microsecond.
    """
    size = F.abs(value)
    whole = F.floor(size)
    rest = F.floor((size - whole.cast("double")) * unit + 0.5)  # the nearest whole microsecond
    micros = F.try_add(integer_micros(whole, unit), rest)
    # A quotient of whole numbers below 2**53 is rounded as text is when it becomes a double.
    nearest = micros.cast("double") / float(unit)
    down = F.when(nearest > size, micros - 1).otherwise(micros)
    up = F.when(nearest < size, micros + 1).otherwise(micros)
    return F.when(value < 0, -up).otherwise(down)


def text_micros(value: Column) -> tuple[Column, Column]:
    """A number in text, with up to 18 decimal places and no exponent.

    Returns:
        The number, as decimal(38,18), NULL if it is not a number or has more than 20 digits before
        the point; and whether it is a number.
    """
    is_number = value.rlike(_NUMBER)
    return F.when(is_number, F.trim(value).try_cast("decimal(38,18)")), is_number
