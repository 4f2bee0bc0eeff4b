"""What real tools write: `brainroam init` reads it, or asks what only its owner knows. Trees and names are theirs."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.errors import UsageError

COHORT = brainroam.make_cohort(n_sites=3, n_per_site=4, n_rois=12, seed=0)
NUMBERS = [f"{k:03d}" for k in range(1, 13)]
CONN_NAMES = [f"networks.{k}" for k in range(12)]
XCP_D = "sub-{n}/func/sub-{n}_task-rest_space-MNI152NLin2009cAsym_seg-Gordon_stat-mean_timeseries"


def init(root, *more):
    out = root.with_suffix(".yaml")
    done = CliRunner().invoke(app, ["init", str(root), "--out", str(out), "--force", *more])
    return done, brainroam.load_cohort(out) if done.exit_code == 0 else None


def write_people(path, ids, **columns):
    table = COHORT.table
    label = table["label"].map({0: "HC", 1: "MDD"})
    path.parent.mkdir(parents=True, exist_ok=True)
    people = pd.DataFrame({"participant_id": ids, "site": table["site"], "diagnosis": label, **columns})
    people.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def each_person():
    return zip(NUMBERS, COHORT.series, strict=True)


def write_tsv(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [f"region{k}" for k in range(values.shape[1])]
    pd.DataFrame(values, columns=columns).to_csv(path, sep="\t", index=False)


def matrix(x):
    return np.corrcoef(x.T)


def test_dpabi_of_any_study_is_no_release_of_rest_meta_mdd(tmp_path):
    root = tmp_path / "study"
    folder = root / "Results" / "ROISignals_FunImgARCWF"
    folder.mkdir(parents=True)
    for n, x in each_person():
        r = matrix(x)
        savemat(folder / f"ROISignals_Sub_{n}.mat", {"ROISignals": x})
        np.savetxt(folder / f"ROISignals_Sub_{n}.txt", x)
        savemat(folder / f"ROICorrelation_Sub_{n}.mat", {"ROICorrelation": r})
        np.savetxt(folder / f"ROICorrelation_Sub_{n}.txt", r)
        savemat(folder / f"ROICorrelation_FisherZ_Sub_{n}.mat", {"ROICorrelation_FisherZ": np.arctanh(r - np.eye(12))})
        rows = [f"{k}\t{k}\tmask.nii" for k in range(12)]
        (folder / f"ROI_OrderKey_Sub_{n}.tsv").write_text("\n".join(["Order\tLabel in Mask\tROI Definition", *rows]))
    write_people(root / "people.csv", [f"Sub_{n}" for n in NUMBERS])
    done, cohort = init(root)
    assert done.exit_code == 0, done.output
    assert cohort.measure == "series"
    np.testing.assert_allclose(cohort.series[3], COHORT.series[3])


def test_a_whole_project_of_conn_gives_its_matrices_of_people(tmp_path):
    results = tmp_path / "study" / "conn_project01" / "results"
    before, first = results / "preprocessing", results / "firstlevel" / "SBC_01"
    before.mkdir(parents=True)
    first.mkdir(parents=True)
    of_all = []
    for n, x in each_person():
        signals = np.empty((1, 13), dtype=object)
        signals[0] = [x[:, [k % 12]] for k in range(13)]
        names = np.array([["CSF", *CONN_NAMES]], dtype=object)
        for condition in ("000", "001"):
            savemat(before / f"ROI_Subject{n}_Condition{condition}.mat", {"data": signals, "names": names})
        (before / f"DATA_Subject{n}_Condition000.mat").write_bytes(b"its own format")
        z = np.arctanh(matrix(x) - np.eye(12)) + np.diag(np.full(12, np.nan))
        of_all.append(z)
        cells = np.array([CONN_NAMES], dtype=object)
        savemat(first / f"resultsROI_Subject{n}_Condition001.mat", {"Z": z, "names": cells, "names2": cells})
    savemat(first / "resultsROI_Condition001.mat", {"Z": np.stack(of_all, 2), "names": cells, "names2": cells})
    write_people(tmp_path / "study" / "people.csv", [f"Subject{n}" for n in NUMBERS])
    done, cohort = init(tmp_path / "study")
    assert done.exit_code == 0, done.output
    assert (cohort.measure, cohort.n_rois) == ("matrices", 12)
    upper = np.triu_indices(12, 1)
    np.testing.assert_allclose(cohort.series[5][upper], matrix(COHORT.series[5])[upper])


@pytest.mark.parametrize("table", [None, "participants.tsv"])
def test_volumes_of_fmriprep_are_sent_to_extract(tmp_path, table):
    root = tmp_path / "fmriprep"
    for n in NUMBERS:
        folder = root / f"sub-{n}" / "func"
        folder.mkdir(parents=True)
        (folder / f"sub-{n}_task-rest_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz").write_bytes(b"")
        (folder / f"sub-{n}_task-rest_desc-confounds_timeseries.tsv").write_text("csf\tframewise_displacement\n1\t.1\n")
        (folder / f"sub-{n}_task-rest_from-T1w_to-scanner_mode-image_xfm.txt").write_text("1 0 0\n0 1 0\n0 0 1\n")
    (root / "desc-aseg_dseg.tsv").write_text("index\tname\n0\tUnknown\n2\tLeft-Cerebral-White-Matter\n")
    if table:
        write_people(root / table, [f"sub-{n}" for n in NUMBERS])
    done, _ = init(root)
    assert done.exit_code != 0 and f"brainroam extract {root}" in done.output, done.output


def test_acquisitions_of_other_trs_are_asked_about_and_never_joined(tmp_path):
    root = tmp_path / "nki"
    for n, x in each_person():
        for k, (acq, tr) in enumerate({"645": 0.645, "1400": 1.4, "CAP": 2.5}.items(), start=1):
            path = root / f"sub-{n}/ses-BAS1/func/sub-{n}_ses-BAS1_task-rest_acq-{acq}_seg-Gordon_timeseries.tsv"
            write_tsv(path, x[::k])
            path.with_suffix(".json").write_text(json.dumps({"RepetitionTime": tr}))
    write_people(root / "participants.tsv", [f"sub-{n}" for n in NUMBERS])
    done, _ = init(root)
    assert "acq-1400 (TR 1.4 s), acq-645 (TR 0.645 s), acq-CAP (TR 2.5 s)" in done.output
    for options in ({}, {"runs": "first"}):
        with pytest.raises(UsageError, match="several acquisitions with different TRs"):
            brainroam.load_cohort(root, **options)
    done, cohort = init(root, "--option", "acq=1400")
    assert done.exit_code == 0, done.output
    assert set(cohort.table["tr"]) == {1.4}
    np.testing.assert_allclose(cohort.series[0], COHORT.series[0][::2])


def test_xcp_d_is_read(tmp_path):
    root = tmp_path / "xcp_d"
    for n, x in each_person():
        write_tsv(root / (XCP_D.format(n=n) + ".tsv"), x)
        motion = root / f"sub-{n}/func/sub-{n}_task-rest_motion.tsv"
        motion.write_text("framewise_displacement\n" + "0.1\n" * len(x))
    write_people(root / "participants.tsv", [f"sub-{n}" for n in NUMBERS])
    done, cohort = init(root)
    assert done.exit_code == 0 and len(cohort) == 12, done.output
    np.testing.assert_allclose(cohort.table["mean_fd"], 0.1)


def test_giga_connectome_is_read_and_its_matrices_are_not_taken_for_series(tmp_path):
    root = tmp_path / "giga"
    for n, x in each_person():
        stem = f"sub-{n}/func/sub-{n}_task-rest_seg-Schaefer2018_desc-denoiseSimple"
        write_tsv(root / f"{stem}_timeseries.tsv", x)
        write_tsv(root / f"{stem}_relmat.tsv", matrix(x))
        (root / f"{stem}_timeseries.json").write_text(json.dumps({"SamplingFrequency": 0.5}))
    write_people(root / "participants.tsv", [f"sub-{n}" for n in NUMBERS])
    done, cohort = init(root)
    assert done.exit_code == 0, done.output
    assert cohort.measure == "series" and set(cohort.table["tr"]) == {2.0}


def test_halfpipe_in_folders_of_tasks_is_read(tmp_path):
    root = tmp_path / "halfpipe"
    for n, x in each_person():
        stem = f"sub-{n}/func/task-rest/sub-{n}_task-rest_feature-corrMatrix1_atlas-schaefer2018"
        path = root / f"{stem}_timeseries.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, x, delimiter="\t")
        np.savetxt(root / f"{stem}_desc-correlation_matrix.tsv", matrix(x), delimiter="\t")
    write_people(root / "people.csv", [f"sub-{n}" for n in NUMBERS])
    done, cohort = init(root)
    assert done.exit_code == 0, done.output
    assert cohort.measure == "series" and not cohort.blocks
    np.testing.assert_allclose(cohort.series[7], COHORT.series[7])


@pytest.mark.parametrize("chosen", ["AAL", "CC200"])
def test_cpac_of_two_atlases_is_asked_about(tmp_path, chosen):
    root = tmp_path / "cpac_pipeline"
    for n, x in each_person():
        for atlas, values in {"AAL": x, "CC200": x[:, :8]}.items():
            name = f"sub-{n}_ses-1_task-rest_run-1_atlas-{atlas}_space-MNI152NLin6ASym_reg-36Parameter_desc-Mean"
            path = root / f"sub-{n}_ses-1/func/{name}_timeseries.1D"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savetxt(path, values)
    write_people(root / "people.csv", [f"sub-{n}" for n in NUMBERS])
    done, _ = init(root)
    assert done.exit_code != 0 and "Which of them are the series?" in done.output
    (template,) = {word.strip("'") for word in done.output.split() if chosen in word and word.startswith("'")}
    done, cohort = init(root, "--template", template)
    assert done.exit_code == 0 and cohort.n_rois == (12 if chosen == "AAL" else 8), done.output


def test_rbc_is_read_and_its_own_correlations_are_not_taken_for_another_measurement(tmp_path):
    root = tmp_path / "cpac_RBCv0"
    for n, x in each_person():
        stem = f"sub-{n}/ses-1/func/sub-{n}_ses-1_task-rest_atlas-Gordon_space-MNI152NLin6ASym_reg-36Parameter"
        path = root / f"{stem}_desc-Mean_timeseries.1D"
        path.parent.mkdir(parents=True)
        np.savetxt(path, x)
        np.savetxt(root / f"{stem}_desc-PearsonNilearn_correlations.tsv", matrix(x), delimiter="\t")
    write_people(root / "people.csv", [f"sub-{n}" for n in NUMBERS])
    done, cohort = init(root)
    assert done.exit_code == 0, done.output
    assert cohort.measure == "series" and not cohort.blocks
