"""ABCD: both releases' tables, the KSADS rule, and parcellated CIFTI series."""

import numpy as np
import pytest

from brainroam import load_cohort
from brainroam.errors import ReaderError

BASE = "baseline_year_1_arm_1"
PEOPLE = {  # id: site, months, sex, four KSADS answers
    "AAA": ("site02", "114", "M", ("1", "0", "0", "0")),
    "BBB": ("site02", "120", "F", ("0", "0", "0", "0")),
    "CCC": ("site06", "126", "F", ("555", "0", "0", "0")),
    "DDD": ("site06", "108", "M", ("0", "1", "0", "0")),
    "EEE": ("site06", "108", "M", ("1", "", "888", "0")),
    "FFF": ("site06", "108", "M", ("0", "0", "0", "0")),
}
KSADS = [f"ksads_14_{number}_p" for number in (853, 854, 855, 856)]


def release_4(write, folder):
    """Tabs, quotes, a row of descriptions, and a later visit with other answers."""

    def table(name, columns, rows):
        lines = [columns, [f"what {column} means" for column in columns], *rows]
        write(folder / name, "\n".join("\t".join(f'"{cell}"' for cell in line) for line in lines) + "\n")

    ids = {name: f"NDAR_INV{name}" for name in PEOPLE}
    table(
        "abcd_lt01.txt",
        ["src_subject_id", "eventname", "site_id_l", "interview_age", "sex"],
        [[ids[name], BASE, site, age, sex] for name, (site, age, sex, _) in PEOPLE.items()]
        + [[ids["AAA"], "1_year_follow_up_y_arm_1", "site03", "126", "M"]],
    )
    table(
        "abcd_ksad01.txt",
        ["src_subject_id", "eventname", *KSADS],
        [[ids[name], BASE, *answers] for name, (*_, answers) in PEOPLE.items() if name != "FFF"]
        + [[ids["BBB"], "2_year_follow_up_y_arm_1", "1", "1", "1", "1"]],
    )
    table(
        "acspsw03.txt",
        ["src_subject_id", "eventname", "rel_family_id"],
        [[ids[name], BASE, str(i // 2)] for i, name in enumerate(PEOPLE)],
    )


def release_5(write, folder):
    rows = {name: [f"NDAR_INV{name}", BASE] for name in PEOPLE}
    general, health = folder / "core" / "abcd-general", folder / "core" / "mental-health"
    lines = [[*rows[n], PEOPLE[n][0], str(i // 2), PEOPLE[n][1]] for i, n in enumerate(PEOPLE)]
    text = "src_subject_id,eventname,site_id_l,rel_family_id,interview_age\n"
    write(general / "abcd_y_lt.csv", text + "\n".join(map(",".join, lines)) + "\n")
    lines = [[*rows[n], {"M": "1", "F": "2"}[PEOPLE[n][2]]] for n in PEOPLE]
    text = "src_subject_id,eventname,demo_sex_v2\n"
    write(general / "abcd_p_demo.csv", text + "\n".join(map(",".join, lines)) + "\n")
    lines = [[*rows[n], *PEOPLE[n][3]] for n in PEOPLE if n != "FFF"]
    text = ",".join(["src_subject_id", "eventname", *KSADS]) + "\n"
    write(health / "mh_p_ksads_ss.csv", text + "\n".join(map(",".join, lines)) + "\n")


@pytest.fixture(params=[release_4, release_5], ids=["4.0", "5.1"])
def tree(request, tmp_path, write, signal):
    import nibabel as nib
    from nibabel import cifti2

    request.param(write, tmp_path)
    voxels = cifti2.BrainModelAxis.from_mask(np.ones((5, 1, 1)), affine=np.eye(4), name="thalamus_left")
    parcels = cifti2.ParcelsAxis.from_brain_models([(f"Parcel_{i}", voxels[i : i + 1]) for i in range(5)])
    for seed, name in enumerate([*PEOPLE, "ZZZ"]):
        for session, shift in (("baselineYear1Arm1", 0), ("2YearFollowUpYArm1", 50)):
            stem = f"sub-NDARINV{name}_ses-{session}"
            folder = tmp_path / "derivatives/abcd-hcp-pipeline" / stem.split("_")[0] / stem.split("_")[1] / "func"
            folder.mkdir(parents=True)
            header = (cifti2.SeriesAxis(0, 0.8, 40), parcels)
            image = cifti2.Cifti2Image(signal(seed + shift).astype("f4"), header)
            atlas = "Gordon2014FreeSurferSubcortical"
            nib.save(image, folder / f"{stem}_task-rest_bold_atlas-{atlas}_desc-filtered_timeseries.ptseries.nii")
    return tmp_path


def test_labels_follow_the_rule_and_families_and_exclusions_are_kept(tree, signal):
    cohort = load_cohort(tree)
    people = cohort.table.set_index("subject")
    assert people.index.tolist() == ["sub-NDARINVAAA", "sub-NDARINVBBB", "sub-NDARINVEEE"]
    assert people["label"].tolist() == [1, 0, 1] and people["sex"].tolist() == [1, 0, 1]
    assert people["age"].tolist() == [9.5, 10.0, 9.0] and people["site"].tolist() == ["site02", "site02", "site06"]
    assert people["group"].tolist() == ["0", "0", "2"]
    np.testing.assert_allclose(people["tr"], 0.8)
    np.testing.assert_array_equal(cohort.series[1], signal(1).astype("f4"))
    assert cohort.atlas.name == "Gordon2014FreeSurferSubcortical" and cohort.atlas.labels[4] == "Parcel_4"
    reasons = dict(cohort.excluded.to_numpy())
    assert reasons.keys() == {f"sub-NDARINV{name}" for name in ("CCC", "DDD", "FFF", "ZZZ")}
    assert reasons["sub-NDARINVCCC"].endswith("is 555/0/0/0") and reasons["sub-NDARINVDDD"].endswith("0/1/0/0")
    assert "no baseline row" in reasons["sub-NDARINVFFF"] and "no row" in reasons["sub-NDARINVZZZ"]


def test_the_preset_keeps_one_run(tree, signal, monkeypatch):
    with pytest.warns(UserWarning, match="site07"):
        assert load_cohort(tree, preset="paper", volumes=30).table["n_timepoints"].tolist() == [30, 30, 30]
    np.testing.assert_array_equal(load_cohort(tree, volumes=30).series[0], signal(0).astype("f4")[:30])


def test_series_of_ones_own_and_tables_elsewhere_are_read(tree, signal, tmp_path_factory):
    series = tmp_path_factory.mktemp("series")
    for i, name in enumerate(PEOPLE):
        np.save(series / f"NDARINV{name}.npy", signal(i, 60, 116))
    cohort = load_cohort(series, "abcd", participants=tree, template="{participant_id}.npy", volumes=50)
    assert cohort.atlas.name == "aal" and cohort.table["n_timepoints"].tolist() == [50] * 3
    with pytest.raises(ReaderError, match="template"):
        load_cohort(series, "abcd", participants=tree)


def test_prediction_keeps_everybody_who_was_scanned(tree):
    cohort = load_cohort(tree, require_label=False)
    assert len(cohort) == 6 and cohort.table["label"].isna().sum() == 3


def test_tables_that_are_missing_or_double(tree):
    table = next(p for name in ("abcd_ksad01.txt", "mh_p_ksads_ss.csv") for p in tree.rglob(name))
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines, lines[2]]))
    with pytest.raises(ReaderError, match="baseline"):
        load_cohort(tree)
    table.unlink()
    with pytest.raises(ReaderError, match=r"mh_p_ksads_ss\.csv"):
        load_cohort(tree)


def test_an_age_that_is_no_number_is_named_with_the_person(tree):
    table = next(p for name in ("abcd_lt01.txt", "abcd_y_lt.csv") for p in tree.rglob(name))
    table.write_text(table.read_text().replace("120", "ten", 1))
    with pytest.raises(ReaderError, match=r"sub-NDARINVBBB, column 'interview_age'"):
        load_cohort(tree)


def test_an_interview_without_baseline_rows_labels_nobody(tree):
    table = next(p for name in ("abcd_ksad01.txt", "mh_p_ksads_ss.csv") for p in tree.rglob(name))
    table.write_text(table.read_text().replace(BASE, "2_year_follow_up_y_arm_1"))
    with pytest.raises(ReaderError, match="baseline"):
        load_cohort(tree)
    assert load_cohort(tree, require_label=False).table["label"].isna().all()
