"""A source from whatever holds the data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.sources.codes import Codes
from leastnoise.sources.source import Source, as_array
from leastnoise.sources.tables import Table


def as_source(
    domain: Domain, data: Source | npt.ArrayLike | Mapping[str, npt.ArrayLike], name: str | None = None
) -> Source:
    """The source of counts over `domain` that `data` stands for.

    A source is taken as it is. A mapping holds columns of *values*, also where they are integers: `Codes.of_values`.
    A two-axis array of rows x attributes holds *codes*: `Codes`. An array with an axis per attribute holds *counts*:
    `Table`. Which of them is meant never depends on the number of rows, so two attributes of which the second has two
    values leave it open.

    >>> domain = Domain.of(age=range(18, 20), sex=["F", "M"])
    >>> next(as_source(domain, {"age": [18, 19, 18], "sex": ["F", "F", "M"]}).count([(0,)])).tolist()
    [2, 1]
    """
    if isinstance(data, Source):
        return _checked_source(domain, data, name)
    if isinstance(data, Mapping):
        return Codes.of_values(domain, data, name)
    if isinstance(data, list | tuple | np.ndarray):
        return _from_array(domain, as_array(data, "the data"), name)
    raise LeastnoiseError(
        f"cannot count data of type {type(data).__name__!r}; give columns by name, an array of codes or a source"
    )


def _checked_source(domain: Domain, source: Source, name: str | None) -> Source:
    if source.domain != domain:
        raise LeastnoiseError("the source has another domain than the one asked for; make it with the same domain")
    if name is not None and name != source.name:
        raise LeastnoiseError(f"the source's name is {source.name!r}, not {name!r}; name it where it is made")
    return source


def _from_array(domain: Domain, array: npt.NDArray[Any], name: str | None) -> Source:
    codes = array.ndim == 2 and array.shape[1] == len(domain)
    if codes and domain.shape[1:] == (2,):
        raise LeastnoiseError(
            "an array with two columns may be codes or counts here; say Codes(domain, array) or Table(domain, array)"
        )
    if codes:
        return Codes(domain, array, name)
    if array.ndim == len(domain):
        return Table(domain, array, name)
    raise LeastnoiseError(
        f"the array is neither codes, rows x {len(domain)} attributes, nor counts of shape {domain.shape}"
    )
