"""Turn the tutorials about Python into notebooks: ``python scripts/notebooks.py docs/tutorials site/notebooks``.

The page is the only copy: its Python blocks become cells of code, all else cells of text. Blocks that show output are
left out, for running the notebook gives it. ``mkdocs build`` calls this (``hooks`` in mkdocs.yml) and puts a link below
the title.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"(?ms)^(<!-- check: parse -->\s*\n)?```(python|bash|text)\n(.*?)^```$")
NOT_KEPT = re.compile(r"(?m)^<!--.*?-->\n?|^!\[.*?\]\(.*?\)\n?")  # comments; pictures, whose files stay behind


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


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Of MkDocs: a link to the notebook below the title of a page that has one."""
    if not (page.file.src_uri.startswith("tutorials/") and is_python(markdown)):
        return markdown
    name = Path(page.file.src_uri).stem
    title, _, rest = markdown.partition("\n")
    link = f'<a href="../notebooks/{name}.ipynb" download>Download this page as a notebook</a>'
    return f"{title}\n\n{link}\n{rest}"


def on_post_build(config: Any, **_: Any) -> None:
    """Of MkDocs: write the notebooks into the site."""
    write_all(Path(config["docs_dir"]) / "tutorials", Path(config["site_dir"]) / "notebooks")


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
