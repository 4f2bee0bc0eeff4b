"""The small pieces that every section is made of."""

from xml.etree import ElementTree

import pandas as pd

from brainroam.report.figures import INK, canvas, inline
from brainroam.report.page import Drawing
from brainroam.report.tables import Column, fixed, table


def drawing(name, title):
    def draw():
        figure, axes = canvas(3, 2)
        axes.plot([0, 1], [0, 1], color=INK)
        axes.set_title(title)
        return figure

    return Drawing(name, "What to see & why", draw)


def test_whatever_a_figure_says_is_text_of_valid_xml():
    title = '$\\frac{ <b>\x1b[31m ]]> & \' id="x" url(#here)'
    html = inline(drawing("first", title))
    root = ElementTree.fromstring(html)
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert title.replace("\x1b", "\N{REPLACEMENT CHARACTER}") in texts
    assert "currentColor" in html and INK not in html


def test_figures_share_no_ids_and_every_reference_is_met():
    first, second = (ElementTree.fromstring(inline(drawing(name, "same"))) for name in ("first", "second"))
    ids = [{element.get("id") for element in root.iter()} - {None} for root in (first, second)]
    assert not ids[0] & ids[1]
    for root, known in zip((first, second), ids, strict=True):
        values = [value for element in root.iter() for value in element.attrib.values()]
        used = [value.split("#")[1].rstrip(")") for value in values if value.startswith(("#", "url(#"))]
        assert used and set(used) <= known


def test_what_is_missing_sorts_and_exports_as_nothing():
    frame = pd.DataFrame({"site": ["A", "B"], "auc": [0.5, None]})
    html = table(frame, [Column("site", "Site"), Column("auc", "AUC", fixed(2))], "t", "c")
    assert '<td class="number" data-value="">\N{EN DASH}</td>' in html and 'data-value="0.5">0.50<' in html
