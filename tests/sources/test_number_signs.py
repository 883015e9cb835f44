"""Decimal signs and signs between thousands, in files as offices write them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.domain.attributes import Domain, bins
from leastnoise.errors import LeastnoiseError
from leastnoise.sources.check import check
from leastnoise.sources.convert import source_of
from leastnoise.sources.draft import draft
from leastnoise.sources.files import find_files
from leastnoise.sources.rules import Rules
from leastnoise.workload.file_format import FileFormat
from leastnoise.workload.spec import parse_spec
from tests.every import for_every

# How offices write amounts: the file section of a spec, the delimiter, and what stands for , and . of 1,234.50.
OFFICES = {
    "English": ({"thousands": ","}, ",", (",", ".")),
    "German": ({"decimal": ",", "thousands": "."}, ";", (".", ",")),
    "French": ({"decimal": ",", "thousands": " "}, ";", ("\u202f", ",")),
    "Polish": ({"decimal": ",", "thousands": " "}, ";", ("\u00a0", ",")),
    "Swiss": ({"thousands": "'"}, ";", ("\u2019", ".")),
    "Swiss at a keyboard": ({"thousands": "'"}, ",", ("'", ".")),
}
AMOUNTS = [0.5, 12.25, 999.0, 1000.0, 1234.5, 98_765.25, 1_234_567.75, -4321.0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(amount: float, signs: tuple[str, str]) -> str:
    return f"{amount:,.2f}".translate(str.maketrans(",.", "".join(signs)))


def file_of(amounts, delimiter, signs) -> str:
    lines = [f'"{written(amount, signs)}"{delimiter}{"ab"[k % 2]}' for k, amount in enumerate(amounts)]
    Path("amounts.csv").write_text("\n".join([f"amount{delimiter}kind", *lines]) + "\n", encoding="utf-8")
    return "amounts.csv"


@for_every(office=OFFICES)
def test_amounts_are_read_as_each_office_writes_them(office):
    file, delimiter, signs = OFFICES[office]
    path = file_of(AMOUNTS, delimiter, signs)
    edges = [-10_000, 0, 1, 1000, 1234.5, 1234.75, 100_000, 2_000_000]
    source = source_of(path, Domain.of(amount=bins(edges=edges)), file=file)
    counted = next(source.count([(0,)]))
    assert counted.tolist() == np.histogram(AMOUNTS, edges)[0].tolist()


@for_every(office=OFFICES)
def test_drafts_find_the_signs_and_pass_the_check(office):
    file, delimiter, signs = OFFICES[office]
    rng = np.random.default_rng(1)
    path = file_of(np.round(rng.gamma(2, 4000, 3000), 2), delimiter, signs)
    text = draft(path, look=True).text
    spec = parse_spec(text)
    assert "amount: {bins: {low: 0, high:" in text
    assert (spec.file.decimal, spec.file.thousands) == (file.get("decimal", "."), file["thousands"])
    assert check(path, spec.workload.domain, rules=spec.rules, file=spec.file).ok


def test_a_comma_between_columns_is_never_drafted_as_the_decimal_sign():
    """Thousands of three digits alone were taken for decimals, in a draft that was then refused."""
    Path("x.csv").write_text("pay,kind\n" + "".join(f'"{k},{k % 1000:03}",a\n' for k in range(1, 900)))
    text = draft("x.csv", look=True).text
    assert 'file: {thousands: ","}' in text
    assert "decimal" not in text


def test_where_points_are_decimal_signs_commas_stand_between_thousands():
    rows = "".join(f"{k % 90 + 1},{k % 100:03};{k % 90}.25\n" for k in range(9000))
    Path("x.csv").write_text("pay;rate\n" + rows)
    assert 'file: {delimiter: semicolon, thousands: ","}' in draft("x.csv", look=True).text
    Path("y.csv").write_text("pay;rate\n" + rows.replace(".", ","))
    assert 'file: {delimiter: semicolon, decimal: ","}' in draft("y.csv", look=True).text


def test_what_is_not_in_groups_of_three_digits_is_no_number():
    Path("x.csv").write_text('x\n"1,234"\n"1,23"\n"12,34,567"\n",500"\n1234\n" 1,234.5 "\n"0001,234"\n')
    domain = Domain.of(x=bins(0, 10_000, count=1))
    source = source_of("x.csv", domain, rules={"x": Rules(outside="drop")}, file={"thousands": ","})
    assert next(source.count([(0,)])).tolist() == [3]


def test_codes_with_thousands_are_listed_as_numbers():
    lines = [f'"{code}"' for code in ("1,000", "2,000", "10,000")] * 50
    Path("x.csv").write_text("code,other\n" + "".join(f"{line},a\n" for line in lines))
    spec = parse_spec(draft("x.csv", look=True).text)
    source = source_of("x.csv", spec.workload.domain, rules=spec.rules, file=spec.file)
    assert spec.workload.domain["code"].values.items == (1000, 2000, 10_000)
    assert next(source.count([(0,)])).tolist() == [50, 50, 50]


def test_a_check_says_which_signs_settle_it():
    path = file_of(AMOUNTS, ";", (".", ","))
    found = ln.check(path, Domain.of(amount=bins(-10_000, 2_000_000, count=10)))
    assert found.columns["amount"].fixes[-1] == 'file: {decimal: ",", thousands: "."}'
    assert ln.check(
        path, Domain.of(amount=bins(-10_000, 2_000_000, count=10)), file={"decimal": ",", "thousands": "."}
    ).ok


def test_commas_may_separate_columns_and_be_decimal_signs_in_quotes():
    """As some spreadsheets write them."""
    path = file_of([0.5, 1.25], ",", (".", ","))
    domain = Domain.of(amount=bins(0, 2, count=2))
    assert ln.check(path, domain).columns["amount"].fixes[-1] == 'file: {decimal: ","}'
    assert ln.check(path, domain, file={"decimal": ","}).ok
    assert next(source_of(path, domain, file={"decimal": ","}).count([(0,)])).tolist() == [1, 1]


def test_signs_are_stated_and_keep_the_ledgers_of_files_without_them():
    path = file_of(AMOUNTS, ";", (".", ","))
    plain, signed = (find_files(f"{path}?decimal=,{more}") for more in ("", "&thousands=."))
    assert str(signed).endswith("decimal sign ',', '.' between thousands")
    assert signed.to_json()["thousands"] == "."
    assert "thousands" not in plain.to_json()
    assert "thousands" not in repr(FileFormat(decimal=","))  # whose digest older ledgers have
    assert plain.stopping([("amount", "0")]) != signed.stopping([("amount", "0")])


def test_workbooks_have_texts_with_thousands_beside_numbers():
    pd.DataFrame({"x": ["1.234,5", 2.5, 3]}).to_excel("x.xlsx", index=False)
    domain = Domain.of(x=bins(edges=[0, 2.5, 2.6, 1000, 1235]))
    source = source_of("x.xlsx", domain, file={"decimal": ",", "thousands": "."})
    assert next(source.count([(0,)])).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thousands": ";"}, "thousands ';' is no sign between thousands; use ',', '.', \"'\" or 'space'"),
        ({"thousands": "."}, "'.' cannot both be the decimal sign and stand between thousands; change one of them"),
        ({"decimal": ",", "thousands": ","}, "',' cannot both be the decimal sign and stand between thousands"),
    ],
)
def test_signs_that_cannot_be_are_refused(fields, message):
    with pytest.raises(LeastnoiseError) as error:
        FileFormat(**fields)
    assert message in str(error.value)
    assert FileFormat(thousands="space").thousands == " "
