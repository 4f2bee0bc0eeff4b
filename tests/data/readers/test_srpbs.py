"""SRPBS: protocols as sites, hospitals as institutions, TR written in two ways."""

import numpy as np
import pytest

from brainroam import load_cohort
from brainroam.data.detect import look
from brainroam.errors import ReaderError, UsageError

PEOPLE = """participant_id\tsite\tprotocol\tdiag\tage\tsex\thand
sub-0001\tHUH\t4\t2\t30\t1\t1
sub-0002\tHUH\t5\t0\t31\t2\t1
sub-0003\tKUT\t9\t4\t32\t2\t0
sub-0004\tKUT\t9\t0\t999\t1\t2
sub-0005\tKTT\t11\t2\t40\t2\t2
sub-0006\tKUT\t9\t2\t40\t2\t2
"""
PROTOCOLS = (
    "Parameters of resting-state MRI\nProtocol #\t4\t5\t9\nMRI Scanner\tGE\tGE\tSiemens\nTR (s)\t2.7\t2,500\t2\n"
)


@pytest.fixture
def tree(tmp_path, write, write_rows, signal):
    root = tmp_path / "SRPBS_OPEN"
    write(root / "participants.tsv", PEOPLE)
    write(root / "MRI_protocols_rsMRI.tsv", PROTOCOLS)
    for i in range(1, 6):
        write_rows(root / f"data/sub-{i:04d}/rsfmri/sub-{i:04d}_aal.csv", signal(i, 20, 116), delimiter=",")
    return root


TEMPLATE = "data/{participant_id}/rsfmri/{participant_id}_aal.csv"


def test_sites_are_hospital_and_protocol(tree, signal):
    cohort = load_cohort(tree, template=TEMPLATE)
    people = cohort.table.set_index("subject")
    assert people.index.tolist() == ["sub-0001", "sub-0002", "sub-0004", "sub-0005"]
    assert people["site"].tolist() == ["HUH-4", "HUH-5", "KUT-9", "KTT-11"]
    assert people["institution"].tolist() == ["HUH", "HUH", "KUT", "KTT"]
    assert people["label"].tolist() == [1, 0, 0, 1] and people["sex"].tolist() == [1, 0, 1, 0]
    np.testing.assert_array_equal(people["age"], [30, 31, np.nan, 40])
    np.testing.assert_array_equal(people["tr"], [2.7, 2.5, 2.0, np.nan])
    np.testing.assert_array_equal(cohort.series[1], signal(2, 20, 116))
    assert cohort.atlas.name == "aal"
    reasons = dict(cohort.excluded.to_numpy())
    assert reasons.keys() == {"sub-0003", "sub-0006"}
    assert reasons["sub-0003"].startswith("diag is '4'") and "no series found" in reasons["sub-0006"]


def test_another_disorder_and_both_kinds_of_site_names(tree):
    cohort = load_cohort(tree, template=TEMPLATE, case="schizophrenia", sites=["KUT", "HUH-5"])
    assert cohort.table["subject"].tolist() == ["sub-0002", "sub-0003", "sub-0004"]
    assert cohort.table["label"].tolist() == [0, 1, 0]
    with pytest.raises(UsageError, match="SRPBS"):
        load_cohort(tree, template=TEMPLATE, case="flu")


def test_a_study_of_words_for_diagnoses_is_not_taken_for_the_release(tree):
    assert look(tree).reader == "srpbs"
    words = PEOPLE.replace("\t2\t", "\tMDD\t").replace("\t0\t3", "\tHC\t3").replace("\t4\t3", "\tSCZ\t3")
    (tree / "participants.tsv").write_text(words.replace("\t0\t999", "\tHC\t50"))
    assert look(tree).reader == "folder"


def test_the_preset_warns(tree):
    with pytest.warns(UserWarning) as warned:
        cohort = load_cohort(tree, template=TEMPLATE, preset="paper")
    texts = [str(warning.message) for warning in warned]
    assert any("name four hospitals twice" in text for text in texts)
    assert any("no people from HRC" in text for text in texts)
    assert cohort.sites == ["HUH-4", "HUH-5", "KUT-9"]


def test_without_series_the_template_is_asked_for(tree):
    with pytest.raises(ReaderError, match=r"template"):
        load_cohort(tree)


def test_a_person_who_travelled_is_one(tree, write):
    """The column stands in a table whose columns are otherwise those of the release."""
    lines = PEOPLE.splitlines()
    people = [lines[0] + "\tperson", *(f"{line}\t{'T1' if line[7] in '24' else ''}" for line in lines[1:])]
    write(tree / "participants.tsv", "\n".join(people) + "\n")
    cohort = load_cohort(tree, template=TEMPLATE)
    assert cohort.n_people == 3 and len(cohort) == 4
    assert cohort.table["group"].fillna("alone").tolist() == ["alone", "T1", "T1", "alone"]


def test_a_further_column_can_be_a_covariate(tree):
    assert load_cohort(tree, template=TEMPLATE, covariates=["age", "hand"]).covariates()["hand"].tolist() == [
        1,
        1,
        2,
        2,
    ]


def test_motion_that_people_add_is_read(tree, write):
    """As `check` advises where it is not known for anybody."""
    lines = PEOPLE.splitlines()
    people = [f"{lines[0]}\tmean_fd", *(f"{line}\t{k / 10}" for k, line in enumerate(lines[1:], start=1))]
    write(tree / "participants.tsv", "\n".join(people) + "\n")
    assert load_cohort(tree, template=TEMPLATE).table["mean_fd"].tolist() == [0.1, 0.2, 0.4, 0.5]


def test_init_finds_series_that_users_made_and_says_which_disorder(tree):
    guess = look(tree)
    assert guess.options["template"] == "**/{participant_id}_aal.csv"
    assert guess.options["case"] == "mdd" and "schizophrenia (1)" in guess.remarks["case"]
