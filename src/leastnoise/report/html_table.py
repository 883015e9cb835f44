"""Tables of pages that need no script."""

from collections.abc import Sequence
from html import escape


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in the first column, numbers in the others."""
    first, *others = (escape(h) for h in heads)
    head = f'<th scope="col">{first}</th>' + "".join(f'<th scope="col" class="number">{h}</th>' for h in others)
    lines = (
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f'<td class="number">{escape(c)}</td>' for c in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
