"""Turn the tutorials about Python into notebooks: ``python scripts/notebooks.py docs/tutorials site/notebooks``.

The page is the only copy: its Python blocks become cells of code, all else cells of text. Blocks that show output are
left out, for running the notebook gives it. ``make docs`` calls this; the page links to its notebook below the title.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"(?ms)^(<!-- check: parse -->\s*\n)?```(python|bash|text)\n(.*?)^```$")
# Comments; the link to the notebook; pictures, whose files stay behind.
NOT_KEPT = re.compile(r"(?m)^<!--.*?-->\n?|^<a .*? download>.*?</a>\n?|^!\[.*?\]\(.*?\)\n?")


def is_python(text: str) -> bool:
    """Whether a page is about Python: it has blocks to run, at least as many as of commands.

    >>> is_python("```python\\nimport brainroam\\n```"), is_python("```bash\\nbrainroam init my_data\\n```")
    (True, False)
    """
    kinds = [found[2] for found in BLOCK.finditer(text) if not found[1]]
    return kinds.count("python") >= max(1, kinds.count("bash"))


def notebook(text: str) -> dict[str, Any]:
    """A page as a notebook of format 4.5.

    >>> [cell["cell_type"] for cell in notebook("# Title\\n\\n```python\\nx = 1\\n```\\nDone.\\n")["cells"]]
    ['markdown', 'code', 'markdown']
    """
    cells, at = [], 0
    for found in BLOCK.finditer(text):
        cells += _told(text[at : found.start()])
        if found[2] == "python" and not found[1]:
            cells.append({"cell_type": "code", "source": found[3].rstrip(), "outputs": [], "execution_count": None})
        elif found[2] != "text":
            cells += _told(found[0])
        at = found.end()
    cells += _told(text[at:])
    numbered = [{"id": f"cell-{k}", "metadata": {}, **cell} for k, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _told(text: str) -> list[dict[str, Any]]:
    """A cell of text, where there is some."""
    told = NOT_KEPT.sub("", text).strip()
    return [{"cell_type": "markdown", "source": told}] if told else []


def write_all(pages: Path, out: Path) -> list[Path]:
    """Write a notebook for every page that has one."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for page in sorted(pages.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if is_python(text):
            written.append(out / f"{page.stem}.ipynb")
            written[-1].write_text(json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    print(*write_all(Path(sys.argv[1]), Path(sys.argv[2])), sep="\n")
