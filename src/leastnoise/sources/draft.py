"""A first spec for some data: from the names and types of its columns, and where asked from what is in them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.barrier import barrier, title_of
from leastnoise.sources.broken_rows import broken_rows, is_windows_1252
from leastnoise.sources.convert import engine_of
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.engine import BrokenRowsError, Engine
from leastnoise.sources.files import Files, word_of
from leastnoise.sources.guessing import MARKS, guessed, guessed_signs
from leastnoise.sources.kinds import TIMES, Kind
from leastnoise.sources.number_signs import Signs
from leastnoise.sources.profile import FEW, Profile, Rows, profiles
from leastnoise.sources.sql import Field
from leastnoise.sources.summary import MOST_VALUES, MOST_WORDS
from leastnoise.workload.file_format import FileFormat

MOST_YEARS = 20  # of dates by month
FROM_DATA = "# from the data: keep only if public"
FILL_IN = "# FILL IN"
SPARSE = 4  # times as many numbers lie between them, of those that are codes
MOST_WHOLE = 200  # whole numbers that are kept apart
LARGEST = 2.0**53  # beyond which floats skip whole numbers
BINS = 20  # about so many
CODE_DIGITS = 11  # of numbers that are rather codes, such as those of census tracts and blocks
LABELS = "{labels: codes.csv}"
UNMARKED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}  # that some readers of YAML take for others
HEAD = {
    False: """\
# A draft: fill in what is marked, then try: leastnoise plan THIS-FILE
# The spec is published with the release. Declare values and ranges from what is publicly known, not from the data.
""",
    True: f"""\
# A draft: check it, then try: leastnoise plan THIS-FILE
# What is marked "{FROM_DATA[2:]}" was read from the data. The spec is published with the
# release and is not protected by noise: each of these values must be public, or be replaced by one that was declared
# without looking. Delete the remarks on columns that were left out; they come from the data as well.
""",
}
TAIL = """
{file}# unit: {{id: {id}, max_rows: 3{rest}}}  # {whose}
privacy: {{epsilon: 1, delta: 1e-9}}
"""
TAKEN = frozenset(  # names of columns in tables and answers
    "count sum std_error low high unbiased question rank term value confidence note error".split()
)
NONE = frozenset(("None", "none"))  # marks that may as well be an answer, such as no earlier offence
NONE_REMARK = "; None is a value here: where it marks missing ones, write missing_values: [None]"
PLACE = "; zone: the place whose calendar counts, such as Europe/Berlin"
PERSON = "where a person may have several rows: the column with their id"
FOUND = "its values repeat, as those of people with several rows do; if so, say so here"
ID = re.compile(
    r"(.*[^a-z])?(id|ids|nr|no|num|number|serial|key|code|uid|guid|person|user|customer|patient|client)", re.IGNORECASE
)
WITH_UNIT = re.compile(r"[^\w\s]?\s?[+-]?\d[\d.,' \u00a0\u202f]*\s?(%|[^\w\s]|[A-Za-z]{1,3}\.?)?")
GLUED = re.compile(  # names such as caseid and intnum, which need more evidence
    r"(?!.*(paid|bid|aid|void|grid|covid)$).*(id|num|nr|number|serial|key)", re.IGNORECASE
)
NAMED = re.compile(  # columns with names of people, or how to reach them
    r"((.*[^a-z])?(first|last|full|given|family|middle|maiden|birth|person|patient|customer|client|user|officer|employee|"
    r"subject|victim|suspect|member|student|owner|contact)[^a-z]*)?(name|names|surname|forename|firstname|lastname|"
    r"fullname|nickname|initials|alias|email|e-mail|mail|phone|telephone|mobile|cellphone|fax|street|address|ssn)"
    r"|first|last|given|vorname|nachname|familienname|anrede|nom|prenom|prénom|nombre|apellido|apellidos",
    re.IGNORECASE,
)
PEOPLE = re.compile("person|people|user|customer|patient|client|subject|member|officer|employee|student", re.IGNORECASE)


@dataclass(frozen=True)
class Draft:
    """The text of a spec, and which columns became attributes."""

    text: str
    attributes: list[str]
    left_out: list[str]


def draft(data: str | Path, *, look: bool = False, sample: int | None = None, table: str | None = None) -> Draft:
    """A spec to edit. Unless it may `look`, it reads no row: what must be declared is left open and refused as it is.

    Guarantees: init_reads_no_rows_unless_asked; init_marks_what_it_read_and_what_it_looked_up_plans;
    drafts_pass_the_check_as_they_are.
    """
    with barrier(title_of(data)):
        engine = engine_of(data, table, None)
        if engine is None:
            raise LeastnoiseError("a spec is drafted from a file or a table; give its path or URI")
        if not look:
            return _closing(engine, _opened)
        if engine.dialect != "duckdb":
            engine.close()
            raise LeastnoiseError(
                "only files and DuckDB databases can be looked at; leave out --look (in Python: look), and fill it in"
            )
        looked, files = partial(_drafted, sample=sample), getattr(engine, "files", None)
        if files is not None and (format := guessed(files)) is not None:
            engine.close()
            engine = _as_written(data, table, format)
        try:
            return _closing(engine, looked)
        except BrokenRowsError as error:
            refusal, files = error, getattr(engine, "files", None)
        if files is not None and is_windows_1252(files):
            engine = _as_written(data, table, replace(files.format, encoding="windows-1252"))
            with suppress(BrokenRowsError):
                return _closing(engine, looked)
            files = getattr(engine, "files", None)
        raise DataError("; ".join(broken_rows(files)[:3]) if files is not None else str(refusal))


def _as_written(data: str | Path, table: str | None, format: FileFormat) -> Engine:
    engine = engine_of(data, table, None, format)
    assert engine is not None, "it was a file before"
    return engine


def _closing(engine: Engine, make: Callable[[Engine], Draft]) -> Draft:
    try:
        return make(engine)
    finally:
        engine.close()


def _opened(engine: Engine) -> Draft:
    return _written({name: _open(field) for name, field in engine.fields.items()}, False, engine)


def _drafted(engine: Engine, sample: int | None) -> Draft:
    assert isinstance(engine, DuckDB), "others are refused before"
    rows, fields = Rows(engine, _limited(engine, sample)), dict(engine.fields)
    found = profiles(rows, fields)
    if not any(profile.count or profile.missing for profile in found.values()):
        raise LeastnoiseError("the data has no rows to look at; leave out --look (in Python: look), and fill it in")
    signs = _signs(found.values(), getattr(engine, "files", None))
    if signs is not None:
        fields = {name: replace(field, signs=signs) for name, field in fields.items()}
        found |= profiles(rows, fields, but=[name for name, profile in found.items() if profile.without_signs])
    entries = {name: _looked(field, found[name], sample is not None) for name, field in fields.items()}
    named = [name for name, field in fields.items() if _names_people(name, field, found[name])]
    entries |= dict.fromkeys(named, (None, "names of people, or how to reach them, must never stand in a spec"))
    ids = {name: profile.missing > 0 for name, profile in found.items() if _repeats(name, profile)}
    entries |= dict.fromkeys(ids, (None, "its values repeat; is it the id of people with several rows?"))
    single = [name for name, profile in found.items() if _is_id(name, profile)]
    entries |= dict.fromkeys(single, (None, "nearly every row has another number; is it an id?"))
    return _written(entries, True, engine, ids, signs)


def _signs(columns: Collection[Profile], files: Files | None) -> Signs | None:
    """Decimal signs and those between thousands, where the usual ones leave numbers unread."""
    if files is None:
        return None
    commas = any(column.commas and column.commas >= column.count - column.numbers for column in columns)
    points = any(column.numeric and not column.whole for column in columns)
    return guessed_signs([column.texts for column in columns], commas, points, files.format)


def _names_people(name: str, field: Field, profile: Profile) -> bool:
    """Whether a column with texts is called as if it had names of people."""
    texts = field.kind in ("written", "text") and not profile.numeric and profile.count > 0
    return texts and bool(NAMED.fullmatch(name.strip()))


def _repeats(name: str, profile: Profile) -> bool:
    """Whether a column may hold the ids of people with several rows; without a name it needs some such as 00017."""
    many = profile.different > MOST_VALUES and not profile.unique
    called = bool(ID.fullmatch(_in_words(name))) or (name.startswith("column_") and profile.codes > 0)
    mostly = bool(GLUED.fullmatch(name)) and 2 * profile.different >= profile.count
    return many and (called or mostly) and (profile.whole or not profile.numeric)


def _in_words(name: str) -> str:
    """A name such as userId with its words apart.

    >>> _in_words("userId"), _in_words("CASE_ID"), _in_words("paid")
    ('user_Id', 'CASE_ID', 'paid')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def _is_id(name: str, profile: Profile) -> bool:
    """Whether a column of whole numbers is called as ids are and has another one in nearly every row, in small files,
    too. Amounts and weights are not called so: theirs become bins.
    """
    called = ID.fullmatch(_in_words(name)) or GLUED.fullmatch(name)
    return bool(called) and profile.numeric and profile.whole and profile.unique and profile.different > FEW


def _written(
    entries: dict[str, tuple[str | None, str]],
    look: bool,
    engine: Engine,
    ids: Mapping[str, bool] = MappingProxyType({}),
    signs: Signs | None = None,
) -> Draft:
    """The spec; `entries` has what to write for each column, or None, and a remark."""
    kept = [name for name, (values, _) in entries.items() if values is not None]
    if not kept:
        raise LeastnoiseError(_nothing(list(entries)))
    called = _better_names(list(entries))
    width = max((len(_scalar(called.get(name, name))) for name in kept), default=0) + 1
    lines = [HEAD[look] + "attributes:"]
    for name, (values, remark) in entries.items():
        key = f"{_scalar(called.get(name, name))}:"
        values = f"column: {_scalar(name)}, {values}" if values and name in called else values
        lines.append(f"  # {key} left out, {remark}" if values is None else f"  {key:{width}} {{{values}}}  {remark}")
    ways, up_to = ("[1, 2]", "up to two attributes") if len(kept) > 1 else ("1", "one attribute")
    lines += ["", "workload:", f"  - {{queries: hybrid, ways: {ways}}}  # every table of {up_to}"]
    person = {"id": "person", "whose": PERSON, "rest": ""}
    if ids:  # with whether some rows have none
        one = min(ids, key=_is_thing)
        person = {"id": _scalar(one), "whose": FOUND, "rest": ", missing: drop" * ids[one]}
    tail = TAIL.format(file=_file(getattr(engine, "files", None), signs), **person)
    text = "\n".join(line.rstrip() for line in lines) + "\n" + tail
    attributes = [called.get(name, name) for name in kept]
    return Draft(text, attributes, [name for name in entries if name not in kept])


def _better_names(names: Sequence[str]) -> dict[str, str]:
    """Names for columns whose own have line ends or blanks at their ends or several in a row, which nobody can type, or
    are those of columns that tables have.

    >>> _better_names(["Income  (EUR) ", "sex", " sex", "count"])
    {'Income  (EUR) ': 'Income (EUR)', 'count': 'count_'}
    """
    better = {name: " ".join(name.split()) for name in names}
    better = {name: f"{other}_" if other in TAKEN else other for name, other in better.items()}
    counts = Counter(better.values())
    return {name: other for name, other in better.items() if other and other != name and counts[other] == 1}


def _is_thing(name: str) -> bool:
    """Whether a column with repeated ids rather has those of things than of people."""
    return not PEOPLE.search(name)


def _nothing(columns: Sequence[str]) -> str:
    """Why no column can become an attribute; their names may be data, where a file has no line of names."""
    if len(columns) == 1 and any(sign in columns[0] for sign in ",;\t|"):
        return "each line is one text in quotes that has several fields in it; save the file without the outer quotes"
    if len(columns) == 1:
        return (
            "the data has one column, which is no attribute; where the file has more, say how it is written, such as "
            "FILE?delimiter=whitespace&names=person,day,amount"
        )
    return f"none of the {len(columns):,} columns can be an attribute as they are; write the spec by hand"


def _open(field: Field) -> tuple[str | None, str]:
    """What the type of a column says, and what is left to declare."""
    if field.kind == "unknown":
        return None, "it is neither number, text, date nor truth value"
    if field.kind == "boolean":
        return "values: [false, true]", ""
    if field.kind in ("timestamp", "instant"):
        return None, "it has dates or times; write dates: {from: 2015-01-01, to: 2025-12-31, by: month} for it"
    forms: dict[Kind, str] = {
        "integer": "range: [LOW, HIGH]",
        **dict.fromkeys(("float", "decimal"), _bins("LOW", "HIGH", BINS)),
    }
    if field.kind == "written":  # a file without types
        return "values: []", f"{FILL_IN}, or {forms['integer']}, or {forms['float']}"
    return forms.get(field.kind, "values: []"), FILL_IN


def _file(files: Files | None, signs: Signs | None) -> str:
    """The section on how the file is written, where something has to be said."""
    if files is None or (files.plain and signs is None):
        return ""
    form = files.format
    keys = {
        "delimiter": None if form.delimiter in (None, ",") else _scalar(word_of(form.delimiter)),
        "encoding": None if set(files.encodings) <= {"utf-8"} or len(set(files.encodings)) > 1 else files.encodings[0],
        "decimal": '","' if (signs or form).decimal == "," else None,
        "thousands": _scalar(sign) if (sign := (signs or form).thousands) else None,
        "skip": str(form.skip) if form.skip else None,
        "sheet": None if form.sheet is None else _scalar(form.sheet),
        "names": None if files.header else f"[{', '.join(map(_scalar, files.names))}]",
    }
    said = ", ".join(f"{key}: {value}" for key, value in keys.items() if value is not None)
    sheet = "" if form.sheet is None else "; DATA?sheet=NAME looks at another sheet"
    return f"file: {{{said}}}  # how the file is written{sheet}\n" if said else ""


def _looked(field: Field, profile: Profile, sampled: bool) -> tuple[str | None, str]:
    """What is in a column."""
    if field.kind in ("unknown", "boolean"):
        values, remark = _open(field)
        return _ruled(values, profile, ""), remark
    if not profile.count:
        return None, "it is empty"
    if profile.dates is not None:
        return _dated(profile, sampled, field.kind == "instant")
    if profile.clock is not None:
        hours = f'dates: {{by: hour of day}}, format: "{profile.clock}"'
        return _ruled(hours, profile, ""), FROM_DATA if profile.others else ""
    if field.kind in TIMES:
        return _open(field)
    profile = _without_marks(profile)
    return _numbers(profile, sampled) if profile.numeric else _texts(profile, sampled)


def _without_marks(profile: Profile) -> Profile:
    """A column with few numbers, and otherwise marks such as NA or words such as Unknown, as one of numbers alone."""
    texts = [value for value in profile.values or () if value.strip() in MARKS]
    marked = len(texts) == len(profile.texts)  # which may well stand in most rows
    if _few_words(profile) and profile.different > len(profile.texts) + FEW:
        texts = list(profile.texts)
    numbers = len(profile.values or ()) - len(texts)
    if (
        {text.strip() for text in texts} <= NONE
        or numbers < 2
        or not profile.written
        or profile.codes
        or (profile.count > 2 * profile.numbers and not marked)
    ):
        return profile
    if len(_numbers_of(profile)) < numbers:
        return profile
    known = [value for value in profile.values or () if value not in texts]
    return replace(profile, values=known, others=texts, count=profile.numbers, different=numbers)


def _few_words(profile: Profile) -> bool:
    """Whether nearly all values are numbers, and the others a few words, such as Unknown or refused."""
    words = 0 < len(profile.texts) <= MOST_WORDS and not any(re.search("[0-9]", text) for text in profile.texts)
    return words and profile.written and not profile.codes and 10 * profile.numbers >= 9 * profile.count


def _dated(profile: Profile, sampled: bool, moments: bool) -> tuple[str | None, str]:
    """Whole years around the dates, by month; by year where these are many, as for dates of birth.

    A plan for a thousand ordered values takes minutes, and hardly a table of them is worth its noise.
    """
    first, last = profile.years
    by = "month" if last - first < MOST_YEARS else "year"
    form = f', format: "{profile.dates}"' if profile.dates else ", zone: UTC" if moments else ""
    values = f"dates: {{from: {first}-01-01, to: {last}-12-31, by: {by}}}{form}"
    return _ruled(values, profile, "outside: drop" if sampled else ""), FROM_DATA + (PLACE if moments else "")


def _texts(profile: Profile, sampled: bool) -> tuple[str | None, str]:
    if profile.values is not None and (len(profile.values) <= FEW or profile.count >= 3 * len(profile.values)):
        return _listed(profile, profile.values, sampled)
    if profile.others and (set(profile.others) <= MARKS or _few_words(profile)):
        return _numbers(profile, sampled)
    if 2 * profile.numbers > profile.count and not profile.codes:
        return None, "it has numbers and other texts; declare the numbers, and write missing_values for the texts"
    if profile.texts and all(map(WITH_UNIT.fullmatch, profile.texts)):
        return None, "its numbers have units or other signs, such as $ or %; write them as plain numbers"
    if profile.unique:
        return None, "nearly every row has another value; is it a name or an id?"
    if profile.values is not None:
        return None, "hardly a value has three rows; list them by hand where they are public"
    return None, f"it has more than {MOST_VALUES} values; if they are codes, list them in a file: {LABELS}"


def _listed(profile: Profile, values: Sequence[str], sampled: bool) -> tuple[str | None, str]:
    """A list of values. Those that a sample may have missed count as other."""
    clean = profile.written and not profile.numeric
    marks = [value for value in values if clean and value.strip() in MARKS - NONE]
    known = [value for value in values if value not in marks]
    trim = clean and bool(profile.padded)
    known = sorted({value.strip() for value in known}) if trim else known
    fold = clean and len({value.lower() for value in known}) < len(known)
    known = sorted({value.lower() for value in known}) if fold else known
    if not known:
        return None, "it has nothing but marks of missing values"
    more = ["other"] if sampled and "other" not in known else []
    listed = ", ".join([*(known if profile.numeric else map(_scalar, known)), *more])
    rules = ["trim: true"] * trim + ["fold: true"] * fold
    rules += ["outside: other"] * sampled
    remark = FROM_DATA + (NONE_REMARK if clean and not NONE.isdisjoint(known) else "")
    return _ruled(f"values: [{listed}]", profile, ", ".join(rules), marks), remark


def _ruled(values: str | None, profile: Profile, rules: str, marks: Sequence[str] = ()) -> str | None:
    """With what becomes of missing values, where there are some."""
    if values is None:
        return None
    texts = map(_scalar, sorted({mark.strip() for mark in (*marks, *(profile.others or ()))}))
    marked = [*texts, *(str(int(mark)) for mark in profile.marks)]
    missing = [f"missing_values: [{', '.join(marked)}]"] * bool(marked)
    missing += ["missing: unknown"] * bool(profile.missing or marked)
    return ", ".join(part for part in (values, rules, *missing) if part)


def _numbers(profile: Profile, sampled: bool) -> tuple[str | None, str]:
    low, high, outside = profile.low, profile.high, "outside: clamp" if sampled else ""
    large = max(-low, high) >= LARGEST
    if profile.whole and profile.numeric and _like_codes(profile) and not large:
        whole = sorted({int(number) for number in _numbers_of(profile)})
        return _listed(profile, [str(value) for value in whole], sampled)
    if profile.whole and high - low >= MOST_WHOLE and profile.unique:
        return None, "nearly every row has another number; is it an id?"
    if profile.whole and (digits := _digits_of_each(profile)) >= CODE_DIGITS:
        return None, f"its numbers have {digits} digits each; if they are codes, list them in a file: {LABELS}"
    if profile.ends is not None and high - low > 3 * (profile.ends[1] - profile.ends[0]) > 0:
        (low, high), outside = profile.ends, "outside: clamp"
    if profile.whole and high - low < MOST_WHOLE and not large:
        return _ruled(f"range: [{math.floor(low)}, {math.ceil(high)}]", profile, outside), FROM_DATA
    results = _nice(low, high) if not large else None
    if results is None:
        return None, "its numbers are very large or very close to each other; write bins for it"
    return _ruled(_bins(*results), profile, outside), FROM_DATA


def _numbers_of(profile: Profile) -> list[float]:
    """The values, of a column of numbers."""
    return [number for value in profile.values or () if (number := profile.number_of(value)) is not None]


def _digits_of_each(profile: Profile) -> int:
    """How many digits all of its whole numbers have; 0 where they differ in that."""
    low, high = (len(str(int(end))) for end in (profile.low, profile.high))
    return low if low == high and profile.low > 0 else 0


def _like_codes(profile: Profile) -> bool:
    """Whether whole numbers are few, or far from each other as codes are, and each of them frequent.

    A long tail is none of codes: the upper fifth of the numbers may be farther from each other.
    """
    listed = len(profile.values or ())
    if profile.values is None or profile.count < 3 * listed:
        return False
    numbers = sorted(_numbers_of(profile))
    some = max(listed * 4 // 5, 2)
    return listed <= FEW or numbers[some - 1] - numbers[0] >= SPARSE * some


def _nice(low: float, high: float) -> tuple[str, str, int] | None:
    """Round ends around two numbers, and how many round bins lie between them, if floats can distinguish them.

    >>> _nice(17, 183_412), _nice(0.02, 0.97), _nice(3.5, 3.5)
    (('0', '190000', 19), ('0', '1', 20), ('3', '4', 1))
    """
    rough = (high - low) / BINS or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((size * k for k in (1, 2, 5) if size * k >= rough * 0.999), size * 10)
    first, last = (math.floor(low / step), math.ceil(high / step)) if step else (0, 0)
    last += first == last
    ends = f"{first * step:.12g}", f"{last * step:.12g}"
    return (*ends, last - first) if float(ends[0]) <= low <= high <= float(ends[1]) else None


def _bins(low: str, high: str, count: int) -> str:
    return f"bins: {{low: {low}, high: {high}, count: {count}}}"


def _scalar(text: str) -> str:
    """A text as it stands in YAML, in quotes unless it is a plain word.

    >>> _scalar("north"), _scalar("no"), _scalar("a\\n")
    ('north', '"no"', '"a\\\\U0000000a"')
    """
    plain = UNMARKED.fullmatch(text) and text.lower() not in WORDS
    return text if plain else '"' + "".join(map(_letter, text)) + '"'


def _letter(letter: str) -> str:
    return letter if letter.isprintable() and letter not in '"\\' else f"\\U{ord(letter):08x}"


def _limited(engine: Engine, sample: int | None) -> str:
    if sample is not None and sample < 1:
        raise LeastnoiseError(f"a sample of {sample} rows is too small; look at 1 or more")
    table = engine.table.sql(dialect="duckdb")
    return table if sample is None else f"(SELECT * FROM {table} LIMIT {sample})"
