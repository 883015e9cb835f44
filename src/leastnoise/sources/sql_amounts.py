"""Units of amounts and sums of their products in SQL: the twin of `domain/amounts.py` and `sources/amounts.py`."""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from leastnoise.domain.attributes import Amount, Square
from leastnoise.sources.amounts import LIMB
from leastnoise.sources.sql_lookup import cast_to, double

Expression = Any  # the types within SQLGlot change between its versions


def units_of(x: Expression, values: Amount) -> Expression:
    """Whole units of a number, in the steps of `Amount.read`; NULL beyond the bounds."""
    low, high, unit = (double(repr(float(number))) for number in (values.low, values.high, values.unit))
    many = Amount(values.low, values.high, values.unit).units
    steps = exp.Floor(this=exp.paren(x.copy() - low.copy()) / unit + double("0.5"))
    units: Expression = cast_to(exp.Least(this=steps, expressions=[double(repr(float(many)))]), "bigint")
    if isinstance(values, Square):
        doubled = exp.paren(exp.convert(2) * units - exp.convert(many))
        units = doubled * doubled.copy()
    inside = exp.and_(x.copy() >= low, x.copy() <= high)
    return exp.Case(ifs=[exp.If(this=inside, true=units)])


def sums_of(units: Sequence[Expression]) -> list[Expression]:
    """Sums of the lower and of the upper 20 bits of a product of whole units, which has at most 40.

    Neither sum overflows 64 bits below 2^42 rows. The upper part is a whole number below 2^20 even where an engine
    divides in floats.
    """
    product = cast_to(units[0], "bigint")
    for more in units[1:]:
        product = product * cast_to(more, "bigint")
    low = exp.Mod(this=exp.paren(product), expression=exp.convert(2**LIMB))
    high = exp.Div(this=exp.paren(exp.paren(product.copy()) - low.copy()), expression=exp.convert(2**LIMB))
    return [_total(low), _total(cast_to(high, "bigint"))]


def _total(units: Expression) -> Expression:
    return cast_to(exp.func("COALESCE", exp.Sum(this=units), exp.convert(0)), "bigint")
