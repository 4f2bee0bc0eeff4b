"""``python -m tests.valid_but_wrong`` writes the table of all cases beside this file."""

from tests.valid_but_wrong.campaign import TABLE, table

TABLE.write_text(table(), encoding="utf-8")
