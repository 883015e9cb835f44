"""Spec files: attributes, workload and privacy in YAML, with the line in every error."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leastnoise.domain.attributes import Attribute, Domain, Scalar, check_number_of_attributes, with_squares
from leastnoise.domain.csv_files import read_csv
from leastnoise.domain.groups import check_groups, checked_one_per
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.attribute_parts import AttributePart, DiscoverAttribute, DiscoverPart
from leastnoise.workload.document import MOST_CHARACTERS, Document
from leastnoise.workload.fields import UnknownKeyError, shown
from leastnoise.workload.file_format import FileFormat
from leastnoise.workload.matrix_file import read_matrix
from leastnoise.workload.named_files import NamedFiles
from leastnoise.workload.publication import Publication
from leastnoise.workload.rules import Rules, coding, codings
from leastnoise.workload.schema import (
    EXAMPLES,
    AdaptivePart,
    AllowedPart,
    AnyQueries,
    EpsilonPrivacy,
    ImpossiblePart,
    Line,
    LrObjective,
    MatrixQueries,
    MethodName,
    PeoplePart,
    QualityPart,
    SelectName,
    SpecPart,
)
from leastnoise.workload.sums import MOMENTS, Sum
from leastnoise.workload.workload import Workload

Objective = str | dict[str, float]
LONGEST_CSV = 2**26  # bytes of a matrix as text


@dataclass(frozen=True)
class Spec:
    """What a spec file asks for; `budget_fields` are the arguments of a `Budget`.

    They are empty where the spec states accuracy targets and leaves the privacy to be found. `rules` (by attribute) and
    `unit_fields` are for `source_of`: where the attributes are in the data, and whose privacy is protected; so is
    `file`, how a file is written. `method` says how the release is made; `select`, `rounds` and `for_fit` are for
    adaptive ones, `rows_about` helps "auto" to decide; `tree` has the options of trees, `bias` is for matrices;
    `publication` is what readers are told, with the questions that are answered for them. `quality` and `people` are
    shares of the budget for what is measured beside the tables, the latter also by the attributes `people_by`.
    `discover` has the attributes whose keys are to be found, `unknown` those of them whose keys were not given yet.

    >>> spec = parse_spec('''
    ... attributes: {age: {range: [0, 9]}, sex: {values: [F, M]}}
    ... workload: [{queries: hybrid, ways: 2}]
    ... privacy: {epsilon: 1, delta: 1e-9}
    ... ''')
    >>> spec.workload.queries, spec.budget_fields, spec.objective
    (20, {'epsilon': 1, 'delta': 1e-09}, 'sum')
    """

    workload: Workload
    budget_fields: dict[str, Any]
    objective: Objective = "sum"
    baseline: str = "search"
    solver: str = "optimal"
    rules: dict[str, Rules] = field(default_factory=dict)
    unit_fields: dict[str, Any] | None = None
    method: MethodName = "plan"
    select: SelectName = "survey"
    rounds: int | None = None
    for_fit: bool = False
    rows_about: int | None = None
    tree: dict[str, Any] = field(default_factory=dict)
    bias: float = 0.0
    publication: Publication | None = None
    quality: float | None = None
    people: float | None = None
    people_by: tuple[tuple[str, ...], ...] = ()
    file: FileFormat | None = None
    discover: dict[str, DiscoverPart] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


FoundKeys = Mapping[str, Sequence[Scalar]]  # by attribute


def load_spec(
    path: str | Path, *, budgeted: bool = True, files_from: str | Path | None = None, keys: FoundKeys | None = None
) -> Spec:
    """Read a spec file. Unless `budgeted`, it may lack a budget.

    Files that it names are looked up beside it and must be in its folder, or in that of `files_from`. `keys` are those
    that were found for attributes with `discover`.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MOST_CHARACTERS + 1)  # what is longer is refused
    except UnicodeDecodeError:
        raise LeastnoiseError(f"{path.name} is not a text file in UTF-8; save it as such") from None
    return parse_spec(text, path.name, folder=path.parent, budgeted=budgeted, files_from=files_from, keys=keys)


def parse_spec(
    text: str,
    name: str = "spec",
    *,
    folder: Path | None = None,
    budgeted: bool = True,
    files_from: str | Path | None = None,
    keys: FoundKeys | None = None,
) -> Spec:
    """Read a spec from its text; `name` stands before the line in errors, files are looked up in `folder`.

    >>> parse_spec("attributes: {sex: {vales: [F, M]}}")
    Traceback (most recent call last):
    leastnoise.errors.LeastnoiseError: spec line 1: unknown key 'vales' in an attribute; did you mean 'values'?
    """
    document = Document.parse(text, name)
    try:
        part = SpecPart.model_validate(document.data)
    except ValidationError as error:
        raise _first(document, error) from None
    _check_method(document, part)
    if budgeted:
        _check_budget(document, part)
    files = NamedFiles(folder or Path(), None if files_from is None else Path(files_from))
    discover = _discover(document, part, keys or {})
    domain, copies = _domain(document, part.attributes, files, keys or {})
    domain = _restricted(document, part, domain, files)
    workload = Workload(domain)
    if part.method == "tree":
        with document.at("attributes"):
            workload = workload.add(dict.fromkeys(domain.names, "nodes"))
    for k, line in enumerate(part.workload or ()):
        with document.at("workload", k):
            workload = _add(workload, line, copies, files)
    objective = {"lr": float(part.objective.lr)} if isinstance(part.objective, LrObjective) else part.objective
    with document.at("unit"):
        unit = part.unit.model_dump(exclude_unset=True) if part.unit else None
        budget_fields = _budget_fields(part)
        _expand_groups(unit, "max_rows", domain, copies)
    with document.at("privacy"):
        _expand_groups(budget_fields, "rows_per_person", domain, copies)
        budget_fields = _with_groups(budget_fields, unit)
    rules = _rules(document, domain, part.attributes, copies)
    with document.at("privacy"):
        budget_fields = _protect_size(budget_fields, rules, domain)
    tree = {} if part.tree is None else part.tree.model_dump(exclude_unset=True)
    how = (
        part.method,
        *_adaptive(document, part),
        part.rows_about,
        tree,
        part.bias or 0.0,
        _publication(document, part),
        *_beside(document, part, domain, copies),
    )
    with document.at("file"):
        file = FileFormat(**part.file.model_dump(exclude_unset=True)) if part.file else None
    unknown = tuple(name for name in discover if name not in (keys or {}))
    return Spec(
        workload, budget_fields, objective, part.baseline, part.solver, rules, unit, *how, file, discover, unknown
    )


def _discover(document: Document, part: SpecPart, keys: FoundKeys) -> dict[str, DiscoverPart]:
    """Attributes whose keys are to be found; people must be told apart for that."""
    found = {name: each.discover for name, each in part.attributes.items() if isinstance(each, DiscoverAttribute)}
    for name in keys:
        if name not in found:
            raise document.error(("attributes",), f"keys of {name!r} are given, but the spec does not discover them")
    for name in found:
        place = ("attributes", name)
        if part.privacy is None:
            raise document.error(place, f"discover needs 'privacy', of which it has a share; add {EXAMPLES['privacy']}")
        if part.unit is None and part.privacy.rows_per_person != 1:
            raise document.error(
                place,
                f"discover counts people, so it needs a unit; write for example {EXAMPLES['unit']}, or "
                "rows_per_person: 1 in privacy if each row is another person",
            )
    if sum(each.share for each in found.values()) >= 1:
        raise document.error(("attributes",), "discover takes the whole budget; its shares must add up to less than 1")
    return found


def _publication(document: Document, part: SpecPart) -> Publication | None:
    """What readers are told; the questions that are answered for them are a part of it."""
    if part.questions is None:
        return part.publication
    words = part.publication or Publication()
    if words.questions is not None:
        raise document.error(("questions",), "questions are in 'publication', too; leave them out there")
    return words.model_copy(update={"questions": part.questions})


def _beside(
    document: Document, part: SpecPart, domain: Domain, copies: dict[str, list[str]]
) -> tuple[float | None, float | None, tuple[tuple[str, ...], ...]]:
    """Shares of the budget for what rules touch and for people, and what people are counted by."""
    for key in ("quality", "people"):
        if getattr(part, key) is not None and part.method == "stream":
            raise document.error((key,), f"a stream gets counts, not rows; leave {key!r} out")
    if part.people is not None and part.unit is None:
        raise document.error(("people",), f"people are told apart by a unit; write for example {EXAMPLES['unit']}")
    rows = part.privacy is not None and part.privacy.rows_per_person is not None
    if part.quality is not None and rows and part.unit is None:
        needs = f"a rule may touch any number of rows of one person; write for example {EXAMPLES['unit']}"
        raise document.error(("quality",), needs)
    asked = (part.quality, part.people)
    shares = [value.share if isinstance(value, QualityPart | PeoplePart) else value for value in asked]
    by = part.people.by if isinstance(part.people, PeoplePart) else []
    with document.at("people"):
        sets = tuple(tuple(_expanded(names, copies)) for names in by)
        for name in (name for names in sets for name in names):
            domain.index(name)
        if sum(share or 0 for share in shares) >= 1:
            raise LeastnoiseError("quality and people take the whole budget; their shares must add up to less than 1")
    return shares[0], shares[1], sets


def _check_budget(document: Document, part: SpecPart) -> None:
    """All that noise needs: a budget, or targets from which it follows, and a delta with every epsilon."""
    targets = part.tree is not None and part.tree.targets is not None
    if part.privacy is None and not targets and all(line.within is None for line in part.workload or ()):
        needs = f"the spec needs 'privacy'; write for example {EXAMPLES['privacy']}, or 'within' on a workload line"
        raise document.error((), needs)
    if isinstance(part.privacy, EpsilonPrivacy) and part.privacy.delta is None:
        raise document.error(("privacy",), f"privacy needs 'delta'; write for example {EpsilonPrivacy.example}")


def _check_method(document: Document, part: SpecPart) -> None:
    """Refuse keys that would mean nothing with the method, and what it needs and is not there."""
    if not part.workload and part.method != "tree":
        raise document.error((), f"the spec needs 'workload'; write for example {EXAMPLES['workload']}")
    if part.workload and part.method == "tree":
        raise document.error(("workload",), "all nodes of a tree are published; leave 'workload' out, or use 'tree'")
    if part.tree is not None and part.method != "tree":
        raise document.error(("tree",), "tree needs 'method: tree'; add it at the top level")
    if part.bias is not None and part.method != "matrix":
        raise document.error(("bias",), "a bias needs 'method: matrix'; add it at the top level, or leave 'bias' out")
    if part.bias is not None and not part.bias > 0:
        raise document.error(("bias",), f"bias is {part.bias:g}, not a share above 0; write for example bias: 0.01")
    if part.adaptive is not None and part.method not in ("adaptive", "auto"):
        raise document.error(
            ("adaptive",), "adaptive needs 'method: adaptive' or 'method: auto'; add it at the top level"
        )
    if part.method in ("plan", "auto"):
        return
    used = {"objective"} if part.method in ("matrix", "stream") else set()
    for key in ("objective", "baseline", "solver"):
        if key in part.model_fields_set and key not in used:
            raise document.error((key,), f"{key!r} is for plans; leave it out with 'method: {part.method}'")
    for k, line in enumerate(part.workload or ()):
        if line.within is not None:
            raise document.error(
                ("workload", k), "only a plan can promise 'within'; use 'method: plan' or leave it out"
            )


def _adaptive(document: Document, part: SpecPart) -> tuple[SelectName, int | None, bool]:
    """How to be adaptive: `select`, `rounds` and `for_fit`."""
    options = part.adaptive or AdaptivePart()
    if options.rounds is not None and options.select == "survey":
        raise document.error(("adaptive", "rounds"), "rounds need 'select: aim'; surveys have their own")
    if options.for_fit and options.select != "survey":
        raise document.error(("adaptive", "for_fit"), "for_fit needs 'select: survey'; leave one of them out")
    return options.select, options.rounds, options.for_fit


def _budget_fields(part: SpecPart) -> dict[str, Any]:
    """The arguments of a budget; a unit sets the rows per person."""
    entries = part.privacy.model_dump(exclude_unset=True) if part.privacy else {}
    if part.unit is None:
        return entries
    if not entries:
        raise LeastnoiseError("a unit needs 'privacy', which says what it protects; state epsilon, mu or rho")
    stated = entries.setdefault("rows_per_person", part.unit.max_rows)
    if stated != part.unit.max_rows:
        raise LeastnoiseError(
            f"max_rows {part.unit.max_rows} of the unit and rows_per_person {stated} of privacy differ; leave one out"
        )
    return entries


def _expand_groups(fields: dict[str, Any] | None, bound: str, domain: Domain, copies: dict[str, list[str]]) -> None:
    """Put all copies of an attribute for its name in `one_per`; refuse names that are none."""
    if fields and fields.get("one_per"):
        fields["one_per"] = _expanded(fields["one_per"], copies)
        check_groups(checked_one_per(fields["one_per"], fields.get(bound), bound), domain)


def _with_groups(fields: dict[str, Any], unit: dict[str, Any] | None) -> dict[str, Any]:
    """The budget with the groups of the unit, of each of which a person has one row."""
    if unit is None:
        return fields
    if fields.get("min_separation") is not None:
        raise LeastnoiseError("a unit does not keep rows apart; use its one_per, or leave min_separation out")
    kept, stated = unit.get("one_per"), fields.get("one_per")
    if stated and set(stated) != set(kept or ()):
        raise LeastnoiseError(f"one_per {kept or []} of the unit and {stated} of privacy differ; leave the latter out")
    return fields | {"one_per": kept} if kept else fields


def _protect_size(fields: dict[str, Any], rules: Mapping[str, Rules], domain: Domain) -> dict[str, Any]:
    """Where a row that replaces another may be dropped, the number of rows is protected, too."""
    dropping = [f"the rules of {c.attribute.name!r}" for c in codings(domain, rules) if c.drops]
    dropping += ["impossible: {rows: drop}"] if domain.restrictions.drops else []
    if not dropping or fields.get("neighbours") != "replace" or fields.get("rows_per_person") is not None:
        return fields
    if fields.setdefault("size", "private") == "known":
        raise LeastnoiseError(
            f"the number of rows cannot be known where rows are dropped, as by {dropping[0]}; "
            "use 'size: private', or rules that keep all rows"
        )
    return fields


def _rules(
    document: Document, domain: Domain, parts: dict[str, AttributePart], copies: dict[str, list[str]]
) -> dict[str, Rules]:
    """Rules by attribute; the columns of copies are numbered like the copies."""
    entries: dict[str, Rules] = {}
    for name, part in parts.items():
        fields = part.rules()
        for k, copy in enumerate(copies[name] if fields else []):
            numbered = {"column": f"{part.column}{k + 1}"} if part.repeat and part.column else {}
            entries[copy] = Rules(**fields | numbered)
            with document.at("attributes", name):
                coding(domain[copy], entries[copy])
    return entries


def _domain(
    document: Document, parts: dict[str, AttributePart], files: NamedFiles, keys: FoundKeys
) -> tuple[Domain, dict[str, list[str]]]:
    """The domain, and the attributes that each name of the spec stands for."""
    attributes: dict[str, Attribute] = {}
    copies: dict[str, list[str]] = {}
    with document.at("attributes"):
        check_number_of_attributes(sum(part.repeat or 1 for part in parts.values()))
    for name, part in parts.items():
        with document.at("attributes", name):
            try:
                values = part.values_of(files)
                if isinstance(part, DiscoverAttribute):
                    values = part.with_keys(files, keys.get(name, ()))
            except LeastnoiseError as error:
                raise LeastnoiseError(f"attribute {name!r}: {error}") from None
            copies[name] = [f"{name}{k + 1}" for k in range(part.repeat)] if part.repeat else [name]
            for copy in copies[name]:
                for attribute in with_squares(Attribute(copy, values)):
                    if attribute.name in attributes:
                        raise LeastnoiseError(f"the attribute {attribute.name!r} is named twice; names must differ")
                    attributes[attribute.name] = attribute
    with document.at("attributes"):
        return Domain(tuple(attributes.values())), copies


def _restricted(document: Document, part: SpecPart, domain: Domain, files: NamedFiles) -> Domain:
    """The domain with impossible cells and bounds, where the spec has such."""
    used = [key for key in ("impossible", "allowed", "bounds", "determines") if getattr(part, key) is not None]
    if used and part.method in ("matrix", "stream", "tree"):
        raise document.error((used[0],), f"{used[0]!r} needs tables of several attributes; use 'method: plan'")
    cells = (
        part.impossible if isinstance(part.impossible, ImpossiblePart) else ImpossiblePart(cells=part.impossible or [])
    )
    listed = [part.allowed] if isinstance(part.allowed, AllowedPart) else part.allowed or []
    bounds = [bound.model_dump() for bound in part.bounds or ()]
    for key in used:  # each by itself first, for the line of the mistake
        with document.at(key):
            alone: dict[str, dict[str, Any]] = {
                "impossible": {"impossible": cells.cells, "rows": cells.rows},
                "allowed": {"allowed": [_combinations(each, files) for each in listed if key == "allowed"]},
                "bounds": {"bounds": bounds},
                "determines": {"determines": part.determines},
            }
            domain.restricted(**alone[key])
    if not used:
        return domain
    with document.at(used[0]):
        if "impossible" in used and not cells.cells and not listed:
            raise LeastnoiseError(f"impossible needs 'cells', or 'allowed' beside it; write {EXAMPLES['impossible']}")
        pairs = [_combinations(each, files) for each in listed]
        more: dict[str, Any] = {"rows": cells.rows, "bounds": bounds, "determines": part.determines}
        return domain.restricted(cells.cells, allowed=pairs, **more)


def _combinations(part: AllowedPart, files: NamedFiles) -> dict[str, Any]:
    """Allowed combinations, inline or from the columns of a file."""
    if (part.file is None) == (part.rows is None):
        raise LeastnoiseError(f"allowed needs 'file' or 'rows', one of them; write for example {AllowedPart.example}")
    if part.file is None:
        return {"of": part.of, "rows": part.rows}
    path = files.path(part.file)
    header, rows = read_csv(path, "file of allowed combinations")
    names = [name.strip() for name in header]
    if missing := [name for name in part.of if name not in names]:
        raise LeastnoiseError(f"{path.name} has no column {missing[0]!r}; name its columns as in 'of'")
    places = [names.index(name) for name in part.of]
    return {"of": part.of, "rows": [[row[k].strip() for k in places] for row in rows]}


def _add(workload: Workload, line: Line, copies: dict[str, list[str]], files: NamedFiles) -> Workload:
    if line.confidence is not None and line.within is None:
        raise LeastnoiseError("confidence needs 'within', the distance to keep; write for example within: 50")
    named = ("queries", "on", "of", "by")
    options: dict[str, Any] = {key: value for key, value in line if value is not None and key not in named}
    if line.queries in (Sum.name, MOMENTS):
        return _add_sums(workload, line, copies, options)
    if line.of is not None or line.by is not None:
        raise LeastnoiseError(
            "'of' and 'by' are for sums and moments; name attributes in 'on', or families by attribute"
        )
    if line.on is not None:
        options["on"] = _expanded(line.on, copies)
    if isinstance(line.queries, dict):
        each = {
            copy: _form(q, files, [workload.domain[copy]])
            for name, q in line.queries.items()
            for copy in _expanded([name], copies)
        }
        return workload.add(each, **options)
    on = [workload.domain[name] for name in options.get("on", workload.domain.names)]
    return workload.add(_form(line.queries, files, on), **options)


def _add_sums(workload: Workload, line: Line, copies: dict[str, list[str]], options: dict[str, Any]) -> Workload:
    """Sums or moments of amounts, for each value of other attributes."""
    if line.of is None:
        raise LeastnoiseError(f"{line.queries} need 'of', the amount; write for example {{queries: sum, of: income}}")
    if line.on is not None or line.ways is not None:
        raise LeastnoiseError(f"{line.queries} are of amounts by attributes; write 'of' and 'by', not 'on' and 'ways'")
    if line.weights is not None:
        raise LeastnoiseError(f"{line.queries} have one weight; state several lines, each with a weight of its own")
    of, by = _expanded(line.of, copies), _expanded(line.by or [], copies)
    if line.queries == Sum.name:
        return workload.sums(*of, by=by, **options)
    if odd := set(options) - {"weight"}:
        raise LeastnoiseError(f"moments have no {min(odd)!r}; state sums of their own for it")
    return workload.moments(*of, by=by, **options)


def _expanded(names: Iterable[str], copies: dict[str, list[str]]) -> list[str]:
    return [copy for name in names for copy in copies.get(name, [name])]


def _form(queries: AnyQueries, files: NamedFiles, on: Sequence[Attribute]) -> Any:
    """Queries as `Workload.add` takes them."""
    if isinstance(queries, str):
        return queries
    if isinstance(queries, MatrixQueries) and isinstance(queries.matrix, str):
        return _rows_of(files.path(queries.matrix), on) | ({} if queries.names is None else {"names": queries.names})
    return queries.model_dump(exclude_none=True)


def _rows_of(path: Path, on: Sequence[Attribute]) -> dict[str, Any]:
    """A matrix from a file, with the names of its rows where it has some; names of columns must be the values."""
    if path.suffix == ".csv" and path.is_file() and path.stat().st_size > LONGEST_CSV:
        raise LeastnoiseError(f"{path.name!r} has more than {LONGEST_CSV:,} bytes; save large matrices as .npy")
    file = read_matrix(path)
    for attribute in on if file.items is not None else ():
        written = list(map(str, file.items or ()))
        if len(written) != attribute.size or any(not attribute.is_called(text, k) for k, text in enumerate(written)):
            raise LeastnoiseError(
                f"the columns of {path.name!r} are not the values of {attribute.name!r} in their order; "
                "write them alike, or leave the first line out"
            )
    return {"matrix": file.queries} | ({} if file.names is None else {"names": file.names})


def _first(document: Document, error: ValidationError) -> LeastnoiseError:
    """The error that stands first in the file; what is missing comes last, as it may be a consequence."""
    results = []
    for detail in error.errors():
        cause = detail.get("ctx", {}).get("error")
        path = detail["loc"] + ((cause.key,) if isinstance(cause, UnknownKeyError) else ())
        message = cause if isinstance(cause, LeastnoiseError) else _message(detail)
        results.append((detail["type"] == "missing", document.line(path), document.error(path, message)))
    return min(results, key=lambda entry: entry[:2])[2]


def _message(detail: Any) -> str:
    """Pydantic's own errors in our words."""
    names = [str(step) for step in detail["loc"] if not str(step).startswith("#")]  # '#' marks members of a union
    words = ["the spec", *(name for name in names if not name.isdigit())]
    field = words[-1]
    example = f"write for example {EXAMPLES[field]}" if field in EXAMPLES else detail["msg"]
    if detail["type"] == "missing":
        return f"{words[-2]} needs {field!r}; {example}"
    if detail["type"] in ("too_short", "too_long"):
        size, limit = detail["ctx"]["actual_length"], detail["ctx"].get("min_length", detail["ctx"].get("max_length"))
        return f"{field} needs {limit} entries, not {size}; {example}" if size else f"{field} is empty; {example}"
    return f"{field} is {shown(detail['input'])}; {example}"
