"""Every readable but wrong input comes out right, is refused with a remedy, or is warned about."""

from collections import Counter

import pytest
from tests.valid_but_wrong.campaign import PAGE, TABLE, Case, counts, run, table, topics

CASES = [case for cases in topics().values() for case in cases]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_valid_but_wrong_is_noticed(case: Case, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run(case, tmp_path)


def test_no_case_has_the_id_of_another():
    assert [name for name, n in Counter(case.id for case in CASES).items() if n > 1] == []


def test_the_table_is_that_of_the_cases_and_the_docs_count_them():
    assert TABLE.read_text(encoding="utf-8") == table(), "run: python -m tests.valid_but_wrong"
    assert f"{counts()}." in PAGE.read_text(encoding="utf-8")
