"""Small pieces of HTML for notebooks, escaped."""

from collections.abc import Iterable
from html import escape

import pandas as pd


def html_summary(title: str, table: pd.DataFrame, lines: Iterable[str] = ()) -> str:
    """A title, a table and a list of sentences.

    >>> html_summary("2 <people>", pd.DataFrame({"site": ["<b>"]}), ["One & two"])[:31]
    '<p><strong>2 &lt;people&gt;</st'
    """
    body = table.to_html(index=False, border=0, na_rep="-", float_format=lambda x: f"{x:.3g}") if len(table) else ""
    items = "".join(f"<li>{escape(str(line))}</li>" for line in lines)
    return f"<p><strong>{escape(title)}</strong></p>{body}" + (f"<ul>{items}</ul>" if items else "")
