"""``python -m tests.valid_but_wrong`` writes the table of all cases into docs/results/tried.md."""

from tests.valid_but_wrong.campaign import write_table

write_table()
