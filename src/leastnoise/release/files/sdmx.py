"""Tables as SDMX 3.0: SDMX-CSV 2.0 files, and structure.xml with their code lists and data structures (SDMX-ML).

A cell is an observation: OBS_VALUE is its count, the other numbers are attributes of it. Identifiers in SDMX are
letters, digits and few signs: values that fit are their own codes, others get numbers, and the code lists have the
texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from leastnoise.release.files.publication import Publication, Sheet, identifiers, unique
from leastnoise.release.frames import labels_of
from leastnoise.release.statement import now
from leastnoise.storage.files import put_file

if TYPE_CHECKING:
    import pandas as pd

STRUCTURE = "structure.xml"
AGENCY, VERSION = "LEASTNOISE", "1.0.0"
SPACE = "http://www.sdmx.org/resources/sdmxml/schemas/v3_0"
ATTRIBUTES = {"unbiased": "UNBIASED", "std_error": "STD_ERROR", "low": "LOWER", "high": "UPPER"}
OBSERVED, ESTIMATED, SUPPRESSED = "OBS_VALUE", "E", "Q"
TOTAL, ALL = "TOTAL", "_T"  # the dimension of the table without attributes: a data structure has one or more
STATUSES = {ESTIMATED: "Estimated value", SUPPRESSED: "Missing value; suppressed"}
FIXED = {  # concepts beside the attributes of the data, and what they are
    OBSERVED: "Number",
    TOTAL: "Total",
    "OBS_STATUS": "Observation status",
    "UNIT_MEASURE": "Unit of measure",
    **{ATTRIBUTES[name]: name for name in ATTRIBUTES},
    "INSECURE": "Whether the noise came from a seed",
}
RESERVED = ("STRUCTURE", "STRUCTURE_ID", "STRUCTURE_NAME", "ACTION", "SERIES_KEY", "OBS_KEY", *FIXED)


def write(publication: Publication, folder: Path) -> Iterator[tuple[str, str]]:
    """One SDMX-CSV file per table, and the structures that they refer to.

    Guarantees: sdmx_is_read_back_by_another_library.
    """
    structures = Structures(publication)
    for number, sheet in enumerate(publication.sheets()):
        draft = folder / f"{sheet.name}.csv"
        structures.frame(number, sheet).to_csv(draft, index=False)
        yield f"{sheet.name}.csv", sheet.title
    put_file(folder, STRUCTURE, (line.encode() + b"\n" for line in structures.lines()))
    yield STRUCTURE, "code lists, concepts and data structures of the files (SDMX-ML 3.0)"


@dataclass(frozen=True, eq=False)
class Structures:
    """The identifiers of everything that is published, and the message that explains them."""

    publication: Publication

    @cached_property
    def dimensions(self) -> dict[str, str]:
        """Identifiers of the attributes that occur, by their names."""
        names = list(dict.fromkeys(name for names in self.publication.sets for name in names))
        words = ["_".join(re.findall("[A-Za-z0-9]+", name)).upper() for name in names]
        words = [word if word[:1].isalpha() else f"D_{word}".rstrip("_") for word in words]
        return dict(zip(names, list(unique([*RESERVED, *words], joint="_"))[len(RESERVED) :], strict=True))

    @cached_property
    def codes(self) -> dict[str, list[str]]:
        """Codes of the values of each attribute."""
        domain = self.publication.source.domain
        return {
            name: identifiers(labels_of(domain[name]), "[A-Za-z0-9_][A-Za-z0-9_@$-]*", "C") for name in self.dimensions
        }

    def flow(self, number: int) -> str:
        """The identifier of a table."""
        return f"T{number}_" + ("_".join(map(self.dimensions.__getitem__, self.publication.sets[number]))[:80] or TOTAL)

    def frame(self, number: int, sheet: Sheet) -> pd.DataFrame:
        """A table in the columns of SDMX-CSV 2.0."""
        import pandas as pd

        shape, cells = self.publication.source.domain.project(*sheet.names).shape, len(sheet.frame)
        fixed = {"STRUCTURE": "dataflow", "STRUCTURE_ID": f"{AGENCY}:{self.flow(number)}({VERSION})", "ACTION": "I"}
        columns: dict[str, Any] = {name: [text] * cells for name, text in fixed.items()}
        for axis, name in enumerate(sheet.names):
            codes = np.indices(shape, dtype=np.int32)[axis].ravel()
            columns[self.dimensions[name]] = np.array(self.codes[name], dtype=object)[codes]
        if not sheet.names:
            columns[TOTAL] = [ALL] * cells
        columns[OBSERVED] = sheet.frame["count"].to_numpy()
        columns["OBS_STATUS"] = np.where(sheet.frame["count"].isna(), SUPPRESSED, ESTIMATED)
        columns["UNIT_MEASURE"] = [self.publication.unit.upper()] * cells
        columns |= {code: sheet.frame[name].to_numpy() for name, code in ATTRIBUTES.items() if name in sheet.frame}
        if self.publication.source.insecure:
            columns["INSECURE"] = ["true"] * cells
        return pd.DataFrame(columns)

    # --- SDMX-ML ------------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """The structure message, line by line."""
        yield '<?xml version="1.0" encoding="UTF-8"?>'
        yield f'<mes:Structure xmlns:mes="{SPACE}/message" xmlns:str="{SPACE}/structure" xmlns:com="{SPACE}/common">'
        yield f"<mes:Header><mes:ID>LEASTNOISE</mes:ID><mes:Test>false</mes:Test><mes:Prepared>{now()}</mes:Prepared>"
        yield f'<mes:Sender id="{AGENCY}"/></mes:Header>'
        yield "<mes:Structures>"
        for section in (self._codelists, self._concepts, self._flows, self._structures):
            yield from section()
        yield "</mes:Structures></mes:Structure>"

    def _codelists(self) -> Iterator[str]:
        domain = self.publication.source.domain
        yield "<str:Codelists>"
        for name, code in self.dimensions.items():
            yield from _codelist(f"CL_{code}", name, dict(zip(self.codes[name], labels_of(domain[name]), strict=True)))
        yield from _codelist(f"CL_{TOTAL}", "Total", {ALL: "Total"})
        yield from _codelist("CL_OBS_STATUS", "Observation status", STATUSES)
        yield "</str:Codelists>"

    def _concepts(self) -> Iterator[str]:
        yield "<str:ConceptSchemes>"
        yield f"<str:ConceptScheme {_identity('CS')}>{_name('Concepts')}"
        for code, text in {**{code: name for name, code in self.dimensions.items()}, **FIXED}.items():
            yield f'<str:Concept id="{code}">{_name(text)}</str:Concept>'
        yield "</str:ConceptScheme></str:ConceptSchemes>"

    def _flows(self) -> Iterator[str]:
        about = _described(" ".join(self.publication.notes))
        yield "<str:Dataflows>"
        for number, (_, title) in enumerate(self.publication.entries):
            flow = self.flow(number)
            yield f"<str:Dataflow {_identity(flow)}>{_name(f'{self.publication.title}: {title}')}{about}"
            yield f"<str:Structure>{_urn('datastructure.DataStructure', f'DSD_{flow}')}</str:Structure></str:Dataflow>"
        yield "</str:Dataflows>"

    def _structures(self) -> Iterator[str]:
        yield "<str:DataStructures>"
        for number, names in enumerate(self.publication.sets):
            title = self.publication.entries[number][1]
            yield f"<str:DataStructure {_identity(f'DSD_{self.flow(number)}')}>{_name(title)}"
            yield "<str:DataStructureComponents>"
            yield from self._components(names)
            yield "</str:DataStructureComponents></str:DataStructure>"
        yield "</str:DataStructures>"

    def _components(self, names: Sequence[str]) -> Iterator[str]:
        yield '<str:DimensionList id="DimensionDescriptor">'
        for position, code in enumerate([self.dimensions[name] for name in names] or [TOTAL], 1):
            listed = f"<str:Enumeration>{_urn('codelist.Codelist', f'CL_{code}')}</str:Enumeration>"
            yield f'<str:Dimension id="{code}" position="{position}">{_concept(code)}{_local(listed)}</str:Dimension>'
        yield "</str:DimensionList>"
        yield '<str:AttributeList id="AttributeDescriptor">'
        yield from map(_attribute, [code for code in FIXED if code not in (OBSERVED, TOTAL)])
        yield "</str:AttributeList>"
        number = _local('<str:TextFormat textType="Double"/>')
        measure = f'<str:Measure id="{OBSERVED}">{_concept(OBSERVED)}{number}</str:Measure>'
        yield f'<str:MeasureList id="MeasureDescriptor">{measure}</str:MeasureList>'


def _attribute(code: str) -> str:
    listed = f"<str:Enumeration>{_urn('codelist.Codelist', 'CL_OBS_STATUS')}</str:Enumeration>"
    types = {"OBS_STATUS": listed, "UNIT_MEASURE": '<str:TextFormat textType="String"/>'}
    types["INSECURE"] = '<str:TextFormat textType="Boolean"/>'
    kind = _local(types.get(code, '<str:TextFormat textType="Double"/>'))
    relation = "<str:AttributeRelationship><str:Observation/></str:AttributeRelationship>"
    return f'<str:Attribute id="{code}" usage="optional">{_concept(code)}{kind}{relation}</str:Attribute>'


def _codelist(code: str, name: str, items: Mapping[str, str]) -> Iterator[str]:
    yield f"<str:Codelist {_identity(code)}>{_name(name)}"
    for item, text in items.items():
        yield f"<str:Code id={quoteattr(item)}>{_name(text)}</str:Code>"
    yield "</str:Codelist>"


def _identity(code: str) -> str:
    return f'id="{code}" agencyID="{AGENCY}" version="{VERSION}" isExternalReference="false"'


def _name(text: str) -> str:
    return f'<com:Name xml:lang="en">{_clean(text)}</com:Name>'


def _described(text: str) -> str:
    return f'<com:Description xml:lang="en">{_clean(text)}</com:Description>'


def _clean(text: str) -> str:
    """A text for XML, which has no way to write most control characters."""
    return escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "\ufffd", text)) or "(empty)"


def _concept(code: str) -> str:
    return f"<str:ConceptIdentity>{_urn('conceptscheme.Concept', 'CS', f'.{code}')}</str:ConceptIdentity>"


def _local(inner: str) -> str:
    return f"<str:LocalRepresentation>{inner}</str:LocalRepresentation>"


def _urn(kind: str, code: str, item: str = "") -> str:
    return f"urn:sdmx:org.sdmx.infomodel.{kind}={AGENCY}:{code}({VERSION}){item}"
