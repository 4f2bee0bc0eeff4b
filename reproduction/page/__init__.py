"""The page of the paper: its tables and figures in its order, published numbers beside ours, as HTML and markdown."""

from reproduction.page.build import paper_page

__all__ = ["paper_page"]
