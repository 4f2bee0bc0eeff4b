"""Reading: tables, columns, codes, series and folders as people have them."""

from tests.valid_but_wrong.campaign import Case

CASES: list[Case] = []
