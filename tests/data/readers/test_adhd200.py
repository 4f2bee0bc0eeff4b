"""ADHD-200: 3dROIstats text, ids without zeros, withheld labels, several sessions."""

import numpy as np
import pytest

from brainroam import load_cohort
from brainroam.errors import ReaderError

PEOPLE = """ScanDir ID\tSite\tGender\tAge\tHandedness\tDX\tQC_Athena
1000804\t5\t1\t7.29\t1\t3\t1
10002\t5\t0\t-999\t1\t0\t1
26001\t8\t0\t9\t1\tpending\t1
26002\t1\t1\t10\t1\t1\t0
26003\t1\t1\t10\t1\t2\t1
"""


@pytest.fixture
def tree(tmp_path, write, signal):
    root = tmp_path / "ADHD200_AAL_TCs_filtfix"
    write(tmp_path / "adhd200_preprocessed_phenotypics.tsv", PEOPLE)

    def scan(site, name, seed, session=1, rest=1, kind="sfn", roi_set="aal", width=116):
        header = "File\tSub-brick\t" + "\t".join(f"Mean_{2000 + i} " for i in range(width))
        rows = [
            f"{kind}wmrda{name}.nii.gz\t{t}[?]\t" + "\t".join(f"{v:.6f}" for v in row)
            for t, row in enumerate(signal(seed, 15, width))
        ]
        file = f"{kind}wmrda{name}_session_{session}_rest_{rest}_{roi_set}_TCs.1D"
        write(root / site / name / file, "\n".join([header, *rows]) + "\n")

    scan("NYU", "1000804", 1)
    scan("NYU", "1000804", 11, kind="sn")
    scan("NYU", "0010002", 2, session=1, rest=2)
    scan("NYU", "0010002", 12, session=2, rest=1)
    scan("WashU", "0026001", 3)
    scan("Peking_2", "0026002", 4)
    for name in ("1000804", "0010002"):
        scan("NYU", name, 5, roi_set="cc200", width=190)
    write(root / "templates" / "aal" / "aal_mask.txt", "no series")
    return root


def test_people_are_read_from_text_and_exclusions_have_reasons(tree, signal):
    cohort = load_cohort(tree)
    people = cohort.table.set_index("subject")
    assert people.index.tolist() == ["1000804", "0010002", "0026002"]
    assert people["site"].tolist() == ["NYU", "NYU", "Peking_2"] and people["label"].tolist() == [1, 0, 1]
    assert people["sex"].tolist() == [1, 0, 1]
    np.testing.assert_array_equal(people["age"], [7.29, np.nan, 10])
    for i, seed in enumerate((1, 2, 4)):
        np.testing.assert_array_equal(cohort.series[i], signal(seed, 15, 116))
    assert cohort.atlas.labels[0] == "Precentral_L"
    reasons = dict(cohort.excluded.to_numpy())
    assert reasons.keys() == {"0026001", "0026003"}
    assert reasons["0026001"].startswith("DX is 'pending'") and "no series" in reasons["0026003"]


def test_withheld_labels_stay_for_prediction_and_quality_counts_when_asked(tree):
    cohort = load_cohort(tree, require_label=False, quality_checked=True)
    assert cohort.table["subject"].tolist() == ["1000804", "0010002", "0026001"]
    assert "QC_Athena" in dict(cohort.excluded.to_numpy())["0026002"]


def test_unfiltered_series_are_read_where_asked_for(tree, signal):
    cohort = load_cohort(tree, filtered=False)
    assert cohort.table["subject"].tolist() == ["1000804"]
    np.testing.assert_array_equal(cohort.series[0], signal(11, 15, 116))


def test_its_cc200_is_not_abides(tree):
    cohort = load_cohort(tree, atlas="cc200")
    assert cohort.n_rois == 190 and cohort.atlas.name == "adhd200_cc200"


def test_a_missing_table_is_named(tree):
    (tree.parent / "adhd200_preprocessed_phenotypics.tsv").unlink()
    with pytest.raises(ReaderError, match=r"adhd200_preprocessed_phenotypics\.tsv"):
        load_cohort(tree)


def test_a_column_of_institutions_is_read(tree, write):
    """As `check` advises where Peking_1 and Peking_2 look like one."""
    lines = PEOPLE.splitlines()
    house = {"5": "New York", "1": "Peking", "8": "St. Louis"}
    rows = [f"{lines[0]}\tinstitution", *(f"{line}\t{house[line.split()[1]]}" for line in lines[1:])]
    write(tree.parent / "adhd200_preprocessed_phenotypics.tsv", "\n".join(rows) + "\n")
    assert load_cohort(tree).table["institution"].tolist() == ["New York", "New York", "Peking"]
