"""BIDS derivatives: XCP-D's and giga_connectome's names, runs and their concatenation, n/a parcels, sidecars."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from brainroam import load_cohort
from brainroam.data.detect import look
from brainroam.errors import ReaderError, UsageError

PEOPLE = """participant_id\tcenter\tgroup\tage\tgender
01\tX\tHC\t20\tF
sub-02\tX\tSCZ\t21\tM
sub-03\tY\tSCZ\tn/a\tM
sub-04\tY\tHC\t23\tM
"""
PARCELS = "LH_Vis_1\tLH_Vis_2\tRH_Vis_1\tRH_Vis_2\tThal"


@pytest.fixture
def xcp(tmp_path, write, write_rows, signal):
    """Raw dataset with its table, derivative two folders below; each person shows one trap."""
    write(tmp_path / "participants.tsv", PEOPLE)
    root = tmp_path / "derivatives" / "xcp_d"

    def scan(subject, entities, seed, ending="stat-mean_timeseries.tsv", session=""):
        folder = root / subject / session / "func" if session else root / subject / "func"
        prefix = f"{subject}_{session}_" if session else f"{subject}_"
        return write_rows(folder / f"{prefix}{entities}_{ending}", signal(seed), PARCELS)

    place = "space-MNI152NLin2009cAsym"
    one = scan("sub-01", f"task-rest_run-1_{place}_seg-4S156Parcels", 11)
    scan("sub-01", f"task-rest_run-2_{place}_seg-4S156Parcels", 12)
    scan("sub-01", f"task-rest_{place}_seg-4S156Parcels", 1)
    scan("sub-01", f"task-nback_{place}_seg-4S156Parcels", 13)
    scan("sub-02", f"task-rest_dir-PA_run-2_{place}_seg-4S156Parcels", 14, session="ses-1")
    scan("sub-02", f"task-rest_dir-AP_run-1_{place}_seg-4S156Parcels", 2, session="ses-1")
    scan("sub-02", f"task-rest_{place}_seg-4S156Parcels", 15, session="ses-2")
    na = scan("sub-03", f"task-rest_{place}_seg-4S156Parcels", 3)
    lines = [line.split("\t") for line in na.read_text().splitlines()]
    na.write_text("\n".join("\t".join([*cells[:4], cells[4] if i == 0 else "n/a"]) for i, cells in enumerate(lines)))
    na.with_suffix(".json").write_text(json.dumps({"RepetitionTime": 0.72}))
    scan("sub-99", f"task-rest_{place}_seg-4S156Parcels", 9)
    write(one.parent / "sub-01_task-rest_desc-confounds_timeseries.tsv", "a\tb\n1\t2\n")
    write(one.parent / f"sub-01_task-rest_{place}_seg-4S156Parcels_stat-coverage_bold.tsv", "Node\tcoverage\nx\t1\n")
    (root / "dataset_description.json").write_text("{}")
    return root


def test_runs_sessions_missing_parcels_and_strangers(xcp, signal):
    cohort = load_cohort(xcp, case="SCZ")
    people = cohort.table.set_index("subject")
    assert people.index.tolist() == ["sub-01", "sub-02", "sub-03"]
    assert people["label"].tolist() == [0, 1, 1] and people["site"].tolist() == ["X", "X", "Y"]
    assert people["sex"].tolist() == [0, 1, 1]
    np.testing.assert_array_equal(cohort.series[0], signal(1))
    standardised = [(x - x.mean(axis=0)) / x.std(axis=0) for x in (signal(2), signal(14))]
    np.testing.assert_allclose(cohort.series[1], np.concatenate(standardised))
    np.testing.assert_array_equal(load_cohort(xcp, case="SCZ", runs="first").series[1], signal(2))
    np.testing.assert_array_equal(cohort.series[2][:, :4], signal(3)[:, :4])
    assert np.isnan(cohort.series[2][:, 4]).all()
    np.testing.assert_array_equal(people["tr"], [np.nan, np.nan, 0.72])
    assert cohort.atlas.name == "4S156Parcels" and cohort.atlas.labels[-1] == "Thal"
    reasons = dict(cohort.excluded.to_numpy())
    assert reasons.keys() == {"sub-04", "sub-99"}
    assert "no series found" in reasons["sub-04"] and "no row" in reasons["sub-99"]


def test_sessions_as_rows_of_their_own_stay_together(xcp, signal):
    table = load_cohort(xcp, case="SCZ", sessions="all").table
    assert table["subject"].tolist() == ["sub-01", "sub-02_ses-1", "sub-02_ses-2", "sub-03"]
    assert table["person"].tolist() == ["sub-01", "sub-02", "sub-02", "sub-03"]
    assert table["group"].fillna("alone").tolist() == ["alone", "sub-02", "sub-02", "alone"]


def test_an_empty_cell_of_person_leaves_the_sessions_of_somebody_together(xcp, tmp_path, write):
    lines = PEOPLE.splitlines()
    named = [lines[0] + "\tperson", *(f"{line}\t{'twin' if line.startswith('sub-03') else ''}" for line in lines[1:])]
    write(tmp_path / "participants.tsv", "\n".join(named) + "\n")
    assert load_cohort(xcp, case="SCZ", sessions="all").table["person"].tolist() == [
        "sub-01",
        "sub-02",
        "sub-02",
        "twin",
    ]


def test_init_finds_the_table_in_the_raw_folder_beside_derivatives(xcp, tmp_path):
    (tmp_path / "derivatives" / "bids").mkdir()
    table = (tmp_path / "participants.tsv").rename(tmp_path / "derivatives" / "bids" / "participants.tsv")
    assert Path(look(xcp).options["participants"]).resolve() == table.resolve()


def test_averaged_sessions_average_their_correlations(xcp, signal):
    series = load_cohort(xcp, case="SCZ", sessions="average", runs="first").series[1]
    mean = np.mean([np.corrcoef(signal(seed), rowvar=False) for seed in (2, 15)], axis=0)
    np.testing.assert_allclose(np.corrcoef(series, rowvar=False), mean, atol=1e-12)


def test_the_raw_root_and_a_table_elsewhere_give_the_same(xcp, tmp_path):
    first = load_cohort(xcp).manifest_hash
    assert load_cohort(tmp_path).manifest_hash == first
    moved = (tmp_path / "participants.tsv").rename(tmp_path / "people.tsv")
    with pytest.raises(ReaderError, match=r"participants\.tsv .*participants"):
        load_cohort(xcp)
    assert load_cohort(xcp, participants=moved).manifest_hash == first


def test_one_run_one_session_one_task_by_name(xcp, signal):
    np.testing.assert_array_equal(load_cohort(xcp, run="2", sites=["X"]).series[0], signal(12))
    np.testing.assert_array_equal(load_cohort(xcp, session="ses-2").series[0], signal(15))
    cohort = load_cohort(xcp, task="nback")
    assert cohort.table["subject"].tolist() == ["sub-01"]
    with pytest.raises(UsageError, match=r"'nbak'.*'nback'"):
        load_cohort(xcp, task="nbak")


def test_kinds_that_must_be_chosen(xcp, write_rows, signal):
    func = xcp / "sub-01" / "func"
    write_rows(func / "sub-01_task-rest_space-fsLR_seg-4S156Parcels_stat-mean_timeseries.tsv", signal(7), PARCELS)
    with pytest.raises(
        UsageError, match=r"space-MNI152NLin2009cAsym \(4 people\), space-fsLR \(1 person\); .*--option space=NAME"
    ):
        load_cohort(xcp)
    np.testing.assert_array_equal(load_cohort(xcp, space="fsLR").series[0], signal(7))


def test_several_atlases_are_found_under_either_entity(xcp, write_rows, signal):
    func = xcp / "sub-02" / "func"
    write_rows(func / "sub-02_task-rest_space-MNI152NLin2009cAsym_atlas-Gordon_timeseries.tsv", signal(8), PARCELS)
    with pytest.raises(UsageError, match="4S156Parcels, Gordon"):
        load_cohort(xcp)
    cohort = load_cohort(xcp, atlas="gordon")
    assert cohort.atlas.name == "Gordon" and cohort.table["subject"].tolist() == ["sub-02"]


def test_of_twins_the_text_file_is_read(xcp):
    text = next((xcp / "sub-03" / "func").glob("*_timeseries.tsv"))
    text.with_name(text.name.replace(".tsv", ".ptseries.nii")).write_bytes(b"never opened")
    assert len(load_cohort(xcp)) == 3


def test_values_with_dots_are_different_values(xcp, write_rows, signal):
    for strength in ("2", "5"):
        name = f"sub-04_task-rest_seg-Mist_desc-denoiseScrubbing.{strength}_timeseries.tsv"
        write_rows(xcp / "sub-04" / "func" / name, signal(int(strength)), PARCELS)
    with pytest.raises(UsageError, match=r"desc-denoiseScrubbing\.2 .*desc-denoiseScrubbing\.5"):
        load_cohort(xcp, atlas="Mist")
    np.testing.assert_array_equal(load_cohort(xcp, atlas="Mist", desc="denoiseScrubbing.5").series[0], signal(5))


@pytest.mark.parametrize(
    ("ours", "theirs", "chosen"),
    [
        ("space-MNI6_desc-denoiseSimple", "space-MNI2009_desc-denoiseScrubbing.2", {"desc": "denoiseSimple"}),
        ("reg-24Parameter", "reg-36Parameter", {"reg": "24Parameter"}),
        ("hemi-L", "hemi-R", {"hemi": "L"}),
        ("res-2", "res-3", {"res": "2"}),
        ("echo-1", "echo-2", {"echo": "1"}),
        ("model-AllConfounds", "model-Simple", {"model": "AllConfounds"}),
        ("stat-mean", "stat-median", {"stat": "mean"}),
        ("scale-1", "scale-4", {"scale": "1"}),
        ("desc-clean", "", {"desc": "clean"}),
    ],
)
def test_people_who_were_processed_differently_are_never_mixed(
    tmp_path, write, write_rows, signal, ours, theirs, chosen
):
    """Cases in one pipeline and controls in another were read without a word, and the pipeline was found."""
    write(tmp_path / "participants.tsv", PEOPLE)
    for subject, kind in zip(("01", "02", "03", "04"), (ours, theirs, theirs, ours), strict=True):
        name = "_".join(part for part in (f"sub-{subject}_task-rest_seg-Mine", kind, "timeseries.tsv") if part)
        write_rows(tmp_path / f"sub-{subject}" / "func" / name, signal(int(subject)), PARCELS)
    with pytest.raises(UsageError) as refused:
        load_cohort(tmp_path, case="SCZ")
    words = str(refused.value)
    assert "2 kinds" in words and words.count("(2 people)") == 2 and all(f"{name}=NAME" in words for name in chosen)
    cohort = load_cohort(tmp_path, case="SCZ", **chosen)
    assert cohort.table["subject"].tolist() == ["sub-01", "sub-04"]
    assert cohort.excluded["subject"].tolist() == ["sub-02", "sub-03"]
    everybody = dict.fromkeys(re.findall(r"--option (\w+)=NAME", words), "any")
    assert len(load_cohort(tmp_path, case="SCZ", **everybody)) == 4


def test_what_an_entity_may_be_is_an_option_also_where_scans_are_repeats(tmp_path, write, write_rows, signal):
    write(tmp_path / "participants.tsv", PEOPLE)
    for subject in ("01", "02", "03", "04"):
        for acq in ("645", "1400"):
            name = f"sub-{subject}_task-rest_acq-{acq}_seg-Mine_timeseries.tsv"
            write_rows(tmp_path / f"sub-{subject}" / "func" / name, signal(int(subject) + int(acq)), PARCELS)
    cohort = load_cohort(tmp_path, case="SCZ", acq=1400)
    np.testing.assert_array_equal(cohort.series[0], signal(1401))
    assert len(load_cohort(tmp_path, case="SCZ").series[0]) == 2 * len(signal(1))


def test_one_scan_that_was_processed_twice_is_not_chosen_by_its_name(tmp_path, write, write_rows, signal):
    write(tmp_path / "participants.tsv", PEOPLE)
    for subject in ("01", "02", "03", "04"):
        for rec in ("a", "b"):
            name = f"sub-{subject}_task-rest_rec-{rec}_seg-Mine_timeseries.tsv"
            write_rows(tmp_path / f"sub-{subject}" / "func" / name, signal(int(subject)), PARCELS)
    with pytest.raises(UsageError, match=r"two series of one scan, .*rec-a.*rec-b"):
        load_cohort(tmp_path, case="SCZ", rec="any")


def test_two_derivatives_must_be_chosen_between(xcp, tmp_path, write_rows, signal):
    write_rows(tmp_path / "derivatives/other/sub-01/func/sub-01_task-rest_seg-A_timeseries.tsv", signal(1), PARCELS)
    with pytest.raises(UsageError, match="path"):
        load_cohort(tmp_path)


def test_giga_connectome_counts_its_columns_and_shares_a_sidecar(tmp_path, write, write_rows, signal):
    write(tmp_path / "participants.tsv", PEOPLE)
    func = tmp_path / "sub-1/ses-a/func".replace("sub-1", "sub-01")
    stem = "sub-01_ses-a_task-rest_run-01"
    seg = "seg-Schaefer2018100Parcels7Networks"
    write_rows(func / f"{stem}_{seg}_desc-denoiseSimple_timeseries.tsv", signal(1), "0\t1\t2\t3\t4")
    write_rows(
        func / f"{stem}_{seg}_meas-PearsonCorrelation_desc-denoiseSimple_relmat.tsv", signal(2, 5), "0\t1\t2\t3\t4"
    )
    write(func / f"{stem}_desc-denoiseSimple_timeseries.json", json.dumps({"SamplingFrequency": 0.5}))
    write(func / "sub-01_ses-b_task-rest_desc-denoiseSimple_timeseries.json", json.dumps({"SamplingFrequency": 9}))
    cohort = load_cohort(tmp_path)
    np.testing.assert_array_equal(cohort.series[0], signal(1))
    assert cohort.table["tr"].tolist() == [2.0]
    assert cohort.atlas.labels[0] == "ROI_001"


def test_the_same_person_under_two_spellings_is_refused(xcp, tmp_path):
    (tmp_path / "participants.tsv").write_text(PEOPLE + "02\tX\tHC\t20\tF\n")
    reasons = dict(load_cohort(xcp).excluded.to_numpy())
    assert "listed 2 times in the table with different" in reasons["sub-02"]


def test_motion_comes_from_the_files_of_xcp_d(xcp, write):
    """Of joined runs, that of both; a filtered one and that of another task are not taken; unknown without a file."""
    func = xcp / "sub-01" / "func"
    for name, values in {
        "task-rest_run-1": "n/a\n0.1\n0.3",
        "task-rest_run-2": "0\n0.4\n0.4",
        "task-rest_run-1_desc-filtered": "9\n9",
        "task-nback": "8\n8",
    }.items():
        write(func / f"sub-01_{name}_motion.tsv", f"framewise_displacement\n{values}\n")
    np.testing.assert_allclose(load_cohort(xcp, case="SCZ").table["mean_fd"], [1.2 / 5, np.nan, np.nan])
    assert "mean_fd" in load_cohort(xcp, case="SCZ", covariates=["age", "mean_fd"]).covariate_names


def test_motion_in_the_table_goes_before_that_of_files(xcp, tmp_path, write):
    write(xcp / "sub-01" / "func" / "sub-01_task-rest_motion.tsv", "framewise_displacement\n0.1\n0.3\n")
    lines = PEOPLE.splitlines()
    write(tmp_path / "participants.tsv", "\n".join([f"{lines[0]}\tmean_fd", *(f"{x}\t0.5" for x in lines[1:])]) + "\n")
    assert load_cohort(xcp, case="SCZ").table["mean_fd"].tolist() == [0.5, 0.5, 0.5]
