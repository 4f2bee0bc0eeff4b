"""What init sees in folders of matrices, tables and arrays, and that the study file it would write reads them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from brainroam.cli.init import study_text
from brainroam.data.check import check_cohort
from brainroam.data.detect import look
from brainroam.data.loading import load_cohort
from brainroam.data.readers.series import read_series
from brainroam.data.readers.which_columns import measures_of
from brainroam.errors import ReaderError, UsageError

N, P = 12, 5
RNG = np.random.default_rng(0)
SERIES = [RNG.normal(size=(30, P)) for _ in range(N)]
MATRICES = [np.corrcoef(RNG.normal(size=(P, 30))) for _ in range(N)]
THICKNESS = 2.5 + 0.1 * RNG.normal(size=(N, 12))
IDS = [f"sub-{k:03d}" for k in range(1, N + 1)]
COLUMNS = [f"lh_region{k}_thickness" for k in range(12)]


def write_people(folder, name="participants.tsv", ids=IDS, sep="\t", **columns):
    table = pd.DataFrame({"participant_id": ids, "site": ["A", "B"] * (N // 2), "diagnosis": ["HC", "HC", "MDD"] * 4})
    table["age"] = np.linspace(20, 60, N).round(1)
    table.assign(**columns).to_csv(folder / name, sep=sep, index=False, decimal="," if sep == ";" else ".")


def write_thickness(path, ids, sep="\t"):
    table = pd.DataFrame(THICKNESS.round(3), columns=COLUMNS)
    table.insert(0, "lh.aparc.thickness", ids)
    path.parent.mkdir(exist_ok=True)
    table.to_csv(path, sep=sep, index=False, decimal="," if sep == ";" else ".")


def studied(folder):
    """The cohort of the study file that init writes."""
    guess = look(folder)
    assert not guess.questions, guess.questions
    (folder / "study.yaml").write_text(study_text(guess, folder, ["fc-ridge"], None), encoding="utf-8")
    return load_cohort(folder / "study.yaml")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npz"])
def test_a_folder_of_square_files_is_matrices(tmp_path, suffix):
    write_people(tmp_path)
    (tmp_path / "fc").mkdir()
    names = [f"r{k}" for k in range(P)]
    for who, matrix in zip(IDS, MATRICES, strict=True):
        path = tmp_path / "fc" / f"{who}_relmat.{suffix}"
        if suffix == "npz":
            np.savez(path, fc=matrix)
        else:
            named = pd.DataFrame(matrix, names, names)
            named.to_csv(path, sep="\t" if suffix == "tsv" else ",", index_label="Node")
    cohort = studied(tmp_path)
    assert cohort.measure == "matrices" and not cohort.blocks
    np.testing.assert_allclose(cohort.series[3], MATRICES[3])


def test_tables_of_freesurfer_are_found_beside_people_with_visits_commas_and_other_ids(tmp_path):
    write_people(tmp_path, ids=[who.removeprefix("sub-") for who in IDS])
    visits = [f"{who}_ses-{k}" for who, k in zip([IDS[0], *IDS[:-1]], [1, 2, *[1] * (N - 2)], strict=True)]
    write_thickness(tmp_path / "freesurfer" / "lh.aparc.csv", visits, ";")
    write_thickness(tmp_path / "freesurfer" / "lh.aparc_copy.csv", visits, ";")
    cohort = studied(tmp_path)
    assert cohort.measure == "table" and cohort.n_rois == 12
    np.testing.assert_allclose(cohort.series[0][0], THICKNESS[0].round(3))
    assert len(cohort) == N - 1  # the last has no row
    told = [step for step in cohort.prepared if "several rows" in step]
    assert len(told) == 1 and "1 person" in told[0] and "lh.aparc_copy.csv" in told[0]  # once for both tables
    assert not cohort.excluded["subject"].str.contains("again").any()  # rows are left out, nobody is


def test_a_table_of_other_ids_is_named_and_not_taken(tmp_path):
    write_people(tmp_path)
    (tmp_path / "fc").mkdir()
    for who, matrix in zip(IDS, MATRICES, strict=True):
        np.savetxt(tmp_path / "fc" / f"{who}.csv", matrix, delimiter=",")
    write_thickness(tmp_path / "measures.csv", [f"X{k}" for k in range(N)], ",")
    guess = look(tmp_path)
    assert not guess.blocks
    assert "measures.csv" in guess.remarks["blocks"]


def test_two_folders_of_matrices_are_blocks_by_their_names(tmp_path):
    write_people(tmp_path)
    for task, matrices in {"rest": MATRICES, "nback": MATRICES[::-1]}.items():
        (tmp_path / task).mkdir()
        for who, matrix in zip(IDS, matrices, strict=True):
            np.savetxt(tmp_path / task / f"{who}_task-{task}.csv", matrix, delimiter=",")
    assert set(look(tmp_path).blocks) == {"rest", "nback"}


def test_an_array_of_everybody_follows_the_rows_of_the_table(tmp_path):
    write_people(tmp_path, "people.csv", sep=",", diagnosis=["HC", "MDD", ""] * 4)  # a third is left out
    np.save(tmp_path / "fc.npy", np.stack(MATRICES))
    cohort = studied(tmp_path)
    np.testing.assert_allclose(cohort.series[2], MATRICES[3])


def test_sites_are_found_in_the_ids_of_a_wide_table(tmp_path):
    wide = pd.DataFrame(THICKNESS, columns=COLUMNS)
    wide.insert(0, "SubjID", [f"{site}_sub{k:03d}" for k, site in enumerate(["Oslo", "Rome"] * (N // 2))])
    wide.assign(Dx=[0, 1, 1] * 4, Age=range(20, 20 + N)).to_csv(tmp_path / "all.csv", index=False)
    cohort = studied(tmp_path)
    assert cohort.sites == ["Oslo", "Rome"] and cohort.n_rois == 12
    assert studied(tmp_path).table["age"].iloc[1] == 21


def test_series_matrices_and_tables_are_blocks_but_not_the_series_own_correlations(tmp_path):
    write_people(tmp_path)
    for folder in ("ts", "task", "own"):
        (tmp_path / folder).mkdir()
    for who, x, matrix in zip(IDS, SERIES, MATRICES, strict=True):
        np.save(tmp_path / "ts" / f"{who}.npy", x)
        np.save(tmp_path / "task" / f"{who}_nback.npy", matrix)
        np.save(tmp_path / "own" / f"{who}_rest.npy", np.corrcoef(x.T))
    write_thickness(tmp_path / "fs" / "lh.aparc.tsv", IDS)
    cohort = studied(tmp_path)
    assert {name: block.measure for name, block in cohort.blocks.items()} == {
        "rest": "series",
        "connectivity": "matrices",
        "anatomy": "table",
    }
    np.testing.assert_allclose(cohort.block("connectivity").series[5], MATRICES[5])


def test_several_runs_of_matrices_are_averaged(tmp_path):
    write_people(tmp_path)
    for who, one, other in zip(IDS, MATRICES, MATRICES[::-1], strict=True):
        np.save(tmp_path / f"{who}_run-1.npy", one)
        np.save(tmp_path / f"{who}_run-2.npy", other)
    with pytest.warns(UserWarning, match="runs"):
        cohort = studied(tmp_path)
    np.testing.assert_allclose(cohort.series[0], (MATRICES[0] + MATRICES[-1]) / 2)


def test_marks_of_quality_in_a_phenotype_are_no_block_beside_freesurfer_tables(tmp_path):
    quality = {f"anat_quality_{k}": RNG.normal(size=N) for k in range(12)}
    questions = {f"question_{k}": RNG.integers(0, 3, N) for k in range(30)}
    write_people(tmp_path, **quality, **questions)
    write_thickness(tmp_path / "fs" / "lh.aparc.tsv", IDS)
    cohort = studied(tmp_path)
    assert not cohort.blocks and cohort.n_features == len(COLUMNS)


def test_a_column_that_is_not_read_because_it_tells_the_diagnosis_is_named(tmp_path):
    ids = [f"sub-{k:03d}" for k in range(60)]
    label = np.tile(["HC", "MDD"], 30)
    people = {"participant_id": ids, "site": np.repeat(["A", "B", "C"], 20), "diagnosis": label}
    pd.DataFrame(people).assign(age=np.linspace(20, 60, 60)).to_csv(
        tmp_path / "participants.tsv", sep="\t", index=False
    )
    values = RNG.normal(size=(60, 12))
    values[:, 4] += 9 * (label == "MDD")
    table = pd.DataFrame(values, columns=COLUMNS)
    table.insert(0, "id", ids)
    (tmp_path / "freesurfer").mkdir()
    table.to_csv(tmp_path / "freesurfer" / "lh.aparc.thickness.tsv", sep="\t", index=False)
    cohort = studied(tmp_path)
    assert cohort.n_rois == 11
    assert any(COLUMNS[4] in step for step in cohort.prepared)


def test_directed_matrices_are_no_series_and_are_named(tmp_path):
    write_people(tmp_path)
    (tmp_path / "fc").mkdir()
    for who, matrix in zip(IDS, MATRICES, strict=True):
        directed = matrix + 0.1 * np.triu(RNG.normal(size=(P, P)), 1)
        np.savetxt(tmp_path / "fc" / f"{who}.csv", directed, delimiter=",")
    cohort = studied(tmp_path)
    assert cohort.measure == "matrices" and any("not symmetric" in step for step in cohort.prepared)


def test_ids_lead_a_wide_table_whatever_they_are_called(tmp_path):
    """Three diagnoses and a clinical scale, as cohorts of dementia come; the scale is no measure."""
    write_people(tmp_path, "wide.csv", sep=",", mmse=[20 + k % 9 for k in range(N)], diagnosis=["CN", "MCI", "AD"] * 4)
    table = pd.read_csv(tmp_path / "wide.csv").rename(columns={"participant_id": "Kennung"})
    wide = pd.concat([table, pd.DataFrame(THICKNESS, columns=COLUMNS)], axis=1)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    guess = look(tmp_path, {"target": "diagnosis"})
    assert not guess.questions and guess.options["subject_col"] == "Kennung"
    asked = look(tmp_path).questions
    assert [question.option for question in asked] == ["case"] and "--target diagnosis" in asked[0].text
    cohort = load_cohort(tmp_path / "wide.csv", target="diagnosis", subject_col="Kennung")
    assert list(cohort.atlas.labels) == COLUMNS


def test_a_region_that_tells_the_diagnosis_well_is_a_measure(tmp_path):
    """An AUC of about .9: a hippocampus in dementia stays, a scale of symptoms goes."""
    rng = np.random.default_rng(0)
    label = np.tile([0, 1], 60)
    table = pd.DataFrame({"id": [f"p{k}" for k in range(120)], "site": np.repeat(["A", "B", "C"], 40)})
    table["diagnosis"] = np.where(label, "AD", "CN")
    table["hippocampus"] = 3500 - 700 * label + 400 * rng.normal(size=120)
    table["complaints"] = (5 + 6 * label + 3.5 * rng.normal(size=120)).round().clip(0)
    for k in range(4):
        table[f"region{k}"] = rng.normal(size=120)
    table.to_csv(tmp_path / "wide.csv", index=False)
    labels = load_cohort(tmp_path / "wide.csv").atlas.labels
    assert "hippocampus" in labels and "complaints" not in labels


def test_a_questionnaire_beside_many_measures_is_none_of_them(tmp_path):
    """No list could hold its name, and with three diagnoses no label is known while the table is read."""
    write_people(tmp_path, "wide.csv", sep=",", diagnosis=["CN", "MCI", "AD"] * 4)
    people = pd.read_csv(tmp_path / "wide.csv").assign(Kummer=RNG.normal(9, 2, N), ICV=RNG.normal(1500, 90, N))
    pd.concat([people, pd.DataFrame(THICKNESS, columns=COLUMNS)], axis=1).to_csv(tmp_path / "wide.csv", index=False)
    assert set(load_cohort(tmp_path / "wide.csv", target="diagnosis").atlas.labels) == {*COLUMNS, "ICV"}
    named = load_cohort(tmp_path / "wide.csv", target="diagnosis", measures=["Kummer", *COLUMNS])
    assert "Kummer" in named.atlas.labels


@pytest.mark.parametrize(
    "names", [[f"V{k}" for k in range(20)], ["Heschl", "Cuneus", "Angular", "Rolandic", "Lingual"]]
)
def test_names_that_share_nothing_tell_nothing(names):
    table = pd.DataFrame(RNG.normal(size=(N, len(names))).astype(str), columns=names)
    assert list(measures_of(table)) == names


def visits_of_everybody(folder):
    """Two visits of each person, the later one first; row numbers in a column called ID."""
    rows = [(k, visit) for k in range(N) for visit in ("m06", "bl")]
    table = pd.DataFrame(
        {"ID": range(1, 2 * N + 1), "subid": [IDS[k] for k, _ in rows], "VISCODE": [v for _, v in rows]}
    )
    table["site"] = [["A", "B"][k % 2] for k, _ in rows]
    table["diagnosis"] = [["HC", "MDD"][k // 2 % 2] for k, _ in rows]
    later = np.array([visit == "m06" for _, visit in rows])
    values = pd.DataFrame(THICKNESS[[k for k, _ in rows]] - 0.5 * later[:, None], columns=COLUMNS)
    pd.concat([table, values.round(6)], axis=1).to_csv(folder / "wide.csv", index=False)


def test_rows_of_visits_are_no_people(tmp_path):
    """Numbers of rows are unique, as ids are; a column of ids with a column of visits beside it tells who is who."""
    visits_of_everybody(tmp_path)
    with pytest.warns(UserWarning, match="visit"):
        cohort = studied(tmp_path)
    assert len(cohort) == cohort.n_people == N
    np.testing.assert_allclose(np.concatenate(cohort.series), THICKNESS, atol=1e-6)
    with pytest.warns(UserWarning, match="visit"):
        every = load_cohort(tmp_path / "wide.csv", subject_col="subid", sessions="all")
    assert len(every) == 2 * N and every.n_people == N


def test_a_block_of_visits_gives_the_earliest(tmp_path):
    visits_of_everybody(tmp_path)
    (tmp_path / "wide.csv").rename(tmp_path / "anatomy.csv")
    write_people(tmp_path)
    blocks = {"anatomy": {"table": str(tmp_path / "anatomy.csv")}}
    cohort = load_cohort(tmp_path / "participants.tsv", measures="none", blocks=blocks)
    np.testing.assert_allclose(np.concatenate(cohort.series), THICKNESS, atol=1e-6)


def test_what_stands_beside_a_series_by_its_name_is_not_the_series(tmp_path):
    write_people(tmp_path)
    for who, x in zip(IDS, SERIES, strict=True):
        folder = tmp_path / who / "func"
        folder.mkdir(parents=True)
        np.savetxt(folder / f"{who}_timeseries.csv", x, delimiter=",")
        np.savetxt(folder / f"{who}_confounds.tsv", RNG.normal(size=(30, 7)), delimiter="\t")
        np.savetxt(folder / f"rp_{who}.txt", RNG.normal(size=(30, 6)))
        np.savetxt(folder / f"{who}_spikes.txt", RNG.normal(size=30))  # one column: no series whatever its name
    cohort = studied(tmp_path)
    np.testing.assert_allclose(cohort.series[2], SERIES[2])
    told = look(tmp_path).remarks["blocks"]
    assert "_confounds.tsv" in told and "rp_" in told


def test_which_of_two_kinds_of_series_is_meant_is_asked(tmp_path):
    write_people(tmp_path)
    for who, x in zip(IDS, SERIES, strict=True):
        np.savetxt(tmp_path / f"aal_{who}.txt", x)
        np.savetxt(tmp_path / f"cc_{who}.txt", x[:, :4])
    (question,) = look(tmp_path).questions
    assert question.option == "template"
    assert question.choices == ("aal_{participant_id}.txt", "cc_{participant_id}.txt")
    assert "30 x 5" in question.text and "30 x 4" in question.text
    assert not look(tmp_path, {"template": question.choices[1]}).questions


def cells(words):
    return np.array([words], dtype=object)


def test_matrices_of_conn_are_those_of_the_regions_that_are_sources_and_targets(tmp_path):
    write_people(tmp_path, ids=range(1, N + 1))
    names = [f"atlas.r{k}" for k in range(P)]
    for k, matrix in enumerate(MATRICES, start=1):
        z = np.full((P + 1, P + 2), 0.3)
        z[:P, :P] = np.arctanh(np.where(np.eye(P, dtype=bool), np.nan, matrix))
        content = {"Z": z, "names": cells([*names, "seed"]), "names2": cells([*names, "WM", "CSF"]), "SE": z[:1]}
        for condition in "12":
            content["Z"] = z if condition == "1" else z / 2
            savemat(tmp_path / f"resultsROI_Subject{k:03d}_Condition00{condition}.mat", content)
    with pytest.warns(UserWarning, match=r"seed, WM, CSF"):
        cohort = studied(tmp_path)
    assert set(cohort.blocks) == {"condition001", "condition002"}
    np.testing.assert_allclose(cohort.block("condition001").series[3], MATRICES[3])
    np.testing.assert_allclose(cohort.block("condition002").series[3][0, 1], np.tanh(np.arctanh(MATRICES[3][0, 1]) / 2))
    assert cohort.atlas.labels == tuple(names)


def test_of_correlations_and_their_fisher_z_in_one_folder_one_is_read(tmp_path):
    write_people(tmp_path, ids=[f"Sub_{k:03d}" for k in range(1, N + 1)])
    weak = [0.3 * matrix + 0.7 * np.eye(P) for matrix in MATRICES]  # no z beyond 1 that would show what it is
    for who, matrix in zip(IDS, weak, strict=True):
        with np.errstate(divide="ignore"):
            z = np.arctanh(matrix)
        savemat(tmp_path / f"ROICorrelation_FisherZ_{who}.mat", {"ROICorrelation_FisherZ": z})
        np.savetxt(tmp_path / f"ROICorrelation_FisherZ_{who}.txt", z)
    with pytest.warns(UserWarning, match="Fisher"):
        alone = studied(tmp_path)
    for who, matrix in zip(IDS, weak, strict=True):
        savemat(tmp_path / f"ROICorrelation_{who}.mat", {"ROICorrelation": matrix})
    with pytest.warns(UserWarning, match="Fisher"):
        beside = studied(tmp_path)
    for cohort in (alone, beside):
        assert cohort.measure == "matrices" and not cohort.blocks
        np.testing.assert_allclose(cohort.series[3], weak[3])
    assert "holds the same as" in look(tmp_path).remarks["blocks"]


def test_measures_are_not_offered_as_the_diagnosis_and_usual_names_of_sex_are_known(tmp_path):
    """One csv of ages, as of fcon1000: nobody has a diagnosis."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sub_id": [f"Oslo_sub{k:05d}" if k % 2 else f"Rome_sub{k:05d}" for k in range(60)]})
    people["age"], people["PTGENDER"] = rng.uniform(20, 60, 60).round(1), rng.choice(["M", "F"], 60)
    measures = rng.normal(2.5, 0.2, (60, 12)).round(2)
    table = people.join(pd.DataFrame(measures, columns=[f"lh_G_region{k}" for k in range(12)]))
    table.to_csv(tmp_path / "wide.csv", index=False)
    (asked,) = look(tmp_path / "wide.csv").questions
    assert asked.option == "label_col" and asked.choices == ("none",) and "--target" in asked.text
    guess = look(tmp_path / "wide.csv", {"target": "age"})
    assert not guess.questions and guess.options["sex_col"] == "PTGENDER" and "sex_col" not in guess.remarks


def test_new_people_are_read_whatever_diagnoses_they_have(tmp_path):
    """Three codes, of which a model knows two: nobody needs a diagnosis to be predicted."""
    table = pd.DataFrame({"id": [f"p{k}" for k in range(30)], "site": "X", "dx": ["AD", "CN", "MCI"] * 10})
    values = np.random.default_rng(0).normal(2.5, 0.2, (30, 12)).round(3)
    table.join(pd.DataFrame(values, columns=[f"lh_r{k}" for k in range(12)])).to_csv(tmp_path / "new.csv", index=False)
    with pytest.warns(UserWarning, match="which is the condition"):
        cohort = load_cohort(tmp_path / "new.csv", require_label=False)
    assert len(cohort) == 30 and cohort.table["label"].isna().all()
    told = load_cohort(tmp_path / "new.csv", require_label=False, case="AD", control="CN")
    assert told.table["label"].notna().sum() == 20
    with pytest.raises(UsageError, match="AC"):
        load_cohort(tmp_path / "new.csv", require_label=False, case="AC")


def test_columns_of_one_name_and_other_values_are_kept_under_the_name_of_their_file(tmp_path):
    table = pd.DataFrame(
        {"id": [f"p{k}" for k in range(20)], "site": ["A", "B"] * 10, "dx": ["HC", "HC", "MDD", "MDD"] * 5}
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    rng = np.random.default_rng(0)
    one, two = (pd.DataFrame(rng.normal(3, 0.2, (20, 120)), columns=[f"lh_r{k}" for k in range(120)]) for _ in range(2))
    two["lh_r7"] = one["lh_r7"]
    for name, values in {"lh.aparc": one, "rh.aparc": two}.items():
        table[["id"]].join(values).to_csv(tmp_path / f"{name}.csv", index=False)
    block = {"table": [str(tmp_path / "lh.aparc.csv"), str(tmp_path / "rh.aparc.csv")]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of pandas: a table put together column by column
        cohort = load_cohort(tmp_path / "people.csv", blocks={"anatomy": block}, measures="none")
    assert (
        cohort.n_rois == 239
        and "rh.aparc: lh_r8" in cohort.atlas.labels
        and "rh.aparc: lh_r7" not in cohort.atlas.labels
    )
    assert cohort.series[3][0, cohort.atlas.labels.index("rh.aparc: lh_r8")] == pytest.approx(two["lh_r8"][3])


@pytest.mark.parametrize("content", [b"MATLAB 7.3 MAT-file, Platform: GLNXA64", b"\x89HDF\r\n\x1a\n"])
def test_a_file_of_matlab_in_hdf5_says_what_it_needs(tmp_path, monkeypatch, content):
    monkeypatch.setattr("brainroam.data.readers.hdf.installed", lambda _: False)
    (tmp_path / "p1.mat").write_bytes(content + bytes(600))
    with pytest.raises(ReaderError, match="h5py"):
        read_series(tmp_path / "p1.mat")


def test_variables_of_matlab_in_hdf5_are_read_with_their_axes_turned_back(tmp_path):
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(0).normal(size=(30, 5))
    with h5py.File(tmp_path / "p1.mat", "w", userblock_size=512) as file:
        file["series"] = x.T
        file["name"] = np.array([112, 49], dtype=np.uint16)
        file["name"].attrs["MATLAB_class"] = b"char"
    with open(tmp_path / "p1.mat", "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    assert np.array_equal(read_series(tmp_path / "p1.mat").values, x)


def test_who_has_a_row_of_a_table_and_no_series_is_kept_in_the_order_of_the_people(tmp_path):
    people = pd.DataFrame({"participant_id": [f"p{k:02d}" for k in range(24)], "site": ["A", "B", "C"] * 8})
    people["diagnosis"], people["age"] = ["HC", "MDD"] * 12, range(20, 44)
    people.to_csv(tmp_path / "participants.csv", index=False)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(2.5, 0.2, (24, 12)), columns=[f"lh_r{k}_thickness" for k in range(12)])
    table.insert(0, "lh.aparc.thickness", people["participant_id"])
    table.drop(index=[5, 9]).to_csv(tmp_path / "aparc.csv", index=False)
    for k in range(24):
        if k not in (2, 9):
            np.save(tmp_path / f"p{k:02d}.npy", rng.normal(size=(60, 6)))
    guess = look(tmp_path)
    (tmp_path / "study.yaml").write_text(study_text(guess, tmp_path, ["ensemble"], ["age"]))
    cohort = load_cohort(tmp_path / "study.yaml")
    assert cohort.table["subject"].tolist() == [f"p{k:02d}" for k in range(24) if k != 9]
    assert [cohort.table["subject"][~cohort.has_block(name)].tolist() for name in ("rest", "anatomy")] == [
        ["p02"],
        ["p05"],
    ]
    assert np.isnan(cohort.table["n_timepoints"][2]) and cohort.table["n_timepoints"].min() == 60
    assert cohort.excluded["subject"].tolist() == ["p09"] and "every block" in cohort.excluded["reason"][0]
    assert not {"missing-rois", "low-coverage", "short-series"} & {f.code for f in check_cohort(cohort).findings}


def test_who_has_neither_a_series_nor_a_diagnosis_is_counted_among_those_left_out(tmp_path):
    people = pd.DataFrame({"participant_id": [f"p{k:02d}" for k in range(24)], "site": ["A", "B", "C"] * 8})
    people["diagnosis"] = ["HC", "MDD"] * 12
    people.loc[3, "diagnosis"] = None
    people.to_csv(tmp_path / "participants.csv", index=False)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(2.5, 0.2, (24, 12)), columns=[f"lh_r{k}_thickness" for k in range(12)])
    table.insert(0, "lh.aparc.thickness", people["participant_id"])
    table.to_csv(tmp_path / "aparc.csv", index=False)
    for k in range(24):
        if k not in (3, 8):
            np.save(tmp_path / f"p{k:02d}.npy", rng.normal(size=(60, 6)))
    (tmp_path / "study.yaml").write_text(study_text(look(tmp_path), tmp_path, ["ensemble"], None))
    cohort = load_cohort(tmp_path / "study.yaml")
    assert len(cohort) == 23 and "p08" in cohort.table["subject"].tolist()
    assert cohort.excluded["subject"].tolist() == ["p03"]


def test_directed_matrices_with_any_diagonal_are_matrices_and_square_series_are_asked_about(tmp_path):
    regions, rng = 24, np.random.default_rng(1)
    for name, of_person in {
        "directed": lambda: (x := rng.normal(size=(regions, regions))) + 0.4 * x.T,
        "series": lambda: rng.normal(size=(regions, regions)),
    }.items():
        folder = tmp_path / name
        (folder / "fc").mkdir(parents=True)
        write_people(folder)
        for who in IDS:
            np.save(folder / "fc" / f"{who}.npy", of_person())
    cohort = studied(tmp_path / "directed")
    assert cohort.measure == "matrices" and "not symmetric: those of everybody" in cohort.prepared[0]
    (question,) = look(tmp_path / "series").questions
    assert "24 x 24" in question.text and question.choices == ("fc/{participant_id}.npy",)
    assert look(tmp_path / "series", {"template": "fc/{participant_id}.npy"}).questions == []
    assert load_cohort(tmp_path / "series", "folder", template="fc/{participant_id}.npy").measure == "series"


def test_a_table_with_people_in_its_columns_is_turned(tmp_path):
    """As ComBat has it: features in rows, beside a table of covariates with the batch."""
    pd.DataFrame(
        {"": IDS, "batch": [1, 2] * (N // 2), "age": np.linspace(20, 60, N), "diagnosis": ["HC", "HC", "MDD"] * 4}
    ).to_csv(tmp_path / "covars.csv", index=False)
    features = pd.DataFrame(THICKNESS.T.round(3), COLUMNS, IDS)
    features.to_csv(tmp_path / "features.csv", index_label=None)
    lines = (tmp_path / "features.csv").read_text().split("\n")
    for header in (lines[0], lines[0].removeprefix(",")):  # of pandas, and of write.table in R
        (tmp_path / "features.csv").write_text("\n".join([header, *lines[1:]]))
        cohort = studied(tmp_path)
        assert cohort.sites == ["1", "2"] and list(cohort.atlas.labels) == COLUMNS
        np.testing.assert_allclose(cohort.series[3][0], THICKNESS[3].round(3))


def test_tables_of_enigma_are_one_block(tmp_path):
    write_people(tmp_path, "Covariates.csv", sep=",")
    for name in ("ThickAvg", "SurfAvg"):
        table = pd.DataFrame(THICKNESS, IDS, [f"L_region{k}_{name.lower()}" for k in range(12)])
        table.to_csv(tmp_path / f"CorticalMeasuresENIGMA_{name}.csv", index_label="SubjID")
    cohort = studied(tmp_path)
    assert not cohort.blocks and cohort.n_rois == 24


def test_a_folder_that_init_reads_without_a_question_is_read_by_load_cohort_with_a_warning(tmp_path):
    write_people(tmp_path)
    write_thickness(tmp_path / "fs" / "lh.aparc.tsv", IDS)
    with pytest.warns(UserWarning, match="as brainroam init sees it"):
        assert load_cohort(tmp_path).n_rois == 12
    write_people(tmp_path, diagnosis=["1", "2"] * (N // 2))
    with pytest.raises(ReaderError, match="init"):
        load_cohort(tmp_path)


def test_why_columns_are_no_measures_is_said_and_what_is_asked_for_is_read(tmp_path):
    write_people(tmp_path, "wide.csv", sep=",", IQ=range(90, 90 + N), scan=["3T"] * N, clinic=[0, 1] * (N // 2))
    people = pd.read_csv(tmp_path / "wide.csv")
    pd.concat([people, pd.DataFrame(THICKNESS, columns=COLUMNS)], axis=1).to_csv(tmp_path / "wide.csv", index=False)
    said = load_cohort(tmp_path / "wide.csv").prepared[0]
    assert "IQ (named like" in said and "scan (no numbers)" in said and '["*", NAME]' in said
    other = load_cohort(tmp_path / "wide.csv", measures=["*", "IQ", f"!{COLUMNS[0]}"])
    assert list(other.atlas.labels) == ["IQ", *COLUMNS[1:]]


def test_a_covariate_among_the_measures_is_one_and_no_measure(tmp_path):
    write_people(tmp_path)
    write_thickness(tmp_path / "fs" / "lh.aparc.tsv", IDS)
    table = pd.read_csv(tmp_path / "fs" / "lh.aparc.tsv", sep="\t").assign(eTIV=np.linspace(1.4e6, 1.6e6, N))
    table.to_csv(tmp_path / "fs" / "lh.aparc.tsv", sep="\t", index=False)
    people = pd.read_csv(tmp_path / "participants.tsv", sep="\t")
    people.join(table).to_csv(tmp_path / "wide.csv", index=False)
    blocks = {"anatomy": {"table": str(tmp_path / "fs" / "*.tsv")}}
    of_block = load_cohort(tmp_path / "participants.tsv", measures="none", blocks=blocks, covariates=["age", "eTIV"])
    for cohort in (of_block, load_cohort(tmp_path / "wide.csv", covariates=["age", "eTIV"])):
        assert cohort.covariate_names == ("age", "eTIV") and cohort.table["eTIV"].iloc[-1] == 1.6e6
        assert list(cohort.atlas.labels) == COLUMNS


def test_a_score_that_tells_one_class_of_the_target_is_no_measure(tmp_path):
    ids, classes = [f"p{k}" for k in range(90)], np.tile(["CN", "MCI", "AD"], 30)
    table = pd.DataFrame({"id": ids, "site": np.repeat(["A", "B", "C"], 30), "dx": classes})
    table["complaints"] = (20 - 9 * (classes == "AD") + RNG.integers(0, 3, 90)).astype(float)
    for k in range(4):
        table[f"region{k}"] = RNG.normal(size=90)
    table.to_csv(tmp_path / "wide.csv", index=False)
    cohort = load_cohort(tmp_path / "wide.csv", target="dx")
    assert "complaints" not in cohort.atlas.labels and "tells the diagnosis alone" in cohort.prepared[0]
