"""What the pages of the docs talk about: small folders as people have them, made up."""

from pathlib import Path

import numpy as np
import pandas as pd
from fmriprep_tree import write_tree

from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort


def make_world(root: Path) -> Path:
    """Every folder that a page names, under its name there."""
    cohort = make_cohort(n_sites=4, n_per_site=10, n_rois=12, seed=1)
    messy(root / "my_data", cohort)
    clinics(root / "clinics")
    chinese(root / "mdd", cohort)
    flat(root / "flat", cohort)
    derivatives(root / "xcp_d", cohort)
    consortium(root / "dcan", cohort)
    newcomers(root / "new_patients", make_cohort(n_sites=2, n_per_site=4, n_rois=12, seed=9))
    abide(root / "ABIDE_pcp")
    volumes(root / "my_study")
    return root


def messy(root: Path, cohort: Cohort) -> None:
    """Ids hidden in file names, a workbook with columns of its own."""
    (root / "timeseries_final").mkdir(parents=True)
    people = cohort.table
    cities = dict(zip(cohort.sites, ("Oslo", "Rome", "São Paulo", "Kyoto"), strict=True))
    for k, x in enumerate(cohort.series, start=1):
        _csv(root / "timeseries_final" / f"X{k % 3}_{k:04d}_rest.csv", x)
    table = pd.DataFrame(
        {
            "Sub ID": range(1, len(people) + 1),
            "Scanner location": people["site"].map(cities),
            "Dx (1=patient)": people["label"].map({1: 1, 0: 2}),
            "Age at visit": people["age"].round(1),
            "Gender": people["sex"].map({1: "M", 0: "F"}),
        }
    )
    table.to_excel(root / "people.xlsx", index=False)


def chinese(root: Path, cohort: Cohort) -> None:
    """A table in Chinese as Windows writes it there, sites in the names of files, and one site with regions in rows."""
    (root / "ts").mkdir(parents=True)
    people = cohort.table
    hospitals = people["site"].map(dict(zip(cohort.sites, ("PKU6", "SWU1", "XJ2", "HMU"), strict=True)))
    for k, (x, hospital) in enumerate(zip(cohort.series, hospitals, strict=True), start=1):
        np.save(root / "ts" / f"{hospital}_sub-{k:04d}_rest.npy", x.T if hospital == "XJ2" else x)
    table = pd.DataFrame(
        {
            "被试编号": range(1, len(people) + 1),
            "诊断": people["label"].map({1: "患者", 0: "对照"}),
            "年龄": people["age"].round(1).where(people.index != 3, -9999),
            "性别": people["sex"].map({1: "男", 0: "女"}),
        }
    )
    table.to_csv(root / "人口学信息.csv", index=False, encoding="gbk")


def clinics(root: Path) -> None:
    """150 files in sub-folders; ages missing, a row twice, a file missing, a clinic that sent controls only."""
    cohort = make_cohort(n_sites=5, n_per_site=30, n_rois=12, seed=4)
    people = cohort.table
    names = dict(zip(cohort.sites, ("Basel", "Graz", "Lyon", "Pisa", "Turku"), strict=True))
    clinic = people["site"].map(names)
    for k, x in enumerate(cohort.series, start=1):
        if k != 77:
            _csv(root / "scans" / f"batch{1 + k % 3}" / f"P{k:03d}_rest_aroma.csv", x)
    told = people["label"].map({1: "MDD", 0: "healthy"}).where(clinic != "Turku", "healthy")
    table = pd.DataFrame(
        {
            "Patient no.": [f"P{k:03d}" for k in range(1, len(people) + 1)],
            "Recruited at": clinic,
            "Clinical group": told,
            "Age [y]": people["age"].round(1).mask(people.index.isin([3, 60, 61])),
            "Gender": people["sex"].map({1: "male", 0: "female"}),
            "mean FD (Jenkinson)": people["mean_fd"].round(3),
            "Remarks": "",
        }
    )
    table = pd.concat([table, table.iloc[[11]]])
    table.to_excel(root / "Study list FINAL v3.xlsx", index=False)


def flat(root: Path, cohort: Cohort) -> None:
    """Series beside the table, whose name sorts before theirs."""
    people = cohort.table
    for k, x in enumerate(cohort.series):
        _csv(root / f"sub-{k:02d}.csv", x)
    table = pd.DataFrame({"id": [f"sub-{k:02d}" for k in range(len(people))], "centre": people["site"]})
    table["dx"], table["age"] = people["label"].map({1: "ADHD", 0: "TD"}), people["age"].round(1)
    table["sex"] = people["sex"].map({1: "M", 0: "F"})
    table.to_csv(root / "demographics.csv", index=False)


def derivatives(root: Path, cohort: Cohort) -> None:
    """XCP-D with two runs in each session, and a second session of every fourth person."""
    rng = np.random.default_rng(5)
    for k, x in enumerate(cohort.series):
        for session in (1, 2) if k % 4 == 0 else (1,):
            scan = x if session == 1 else x + rng.normal(0, x.std() / 2, x.shape)
            for run, part in enumerate(np.array_split(scan, 2), start=1):
                _xcp_d(root, f"sub-{k:02d}", part, f"ses-{session}", f"run-{run}")
    _participants(root, cohort)


def _xcp_d(root: Path, name: str, x: np.ndarray, session: str = "", run: str = "") -> None:
    folder = root / name / session / "func"
    words = [name, session, "task-rest", run, "space-MNI_seg-4S12Parcels_stat-mean_timeseries.tsv"]
    folder.mkdir(parents=True, exist_ok=True)
    regions = [f"region-{c}" for c in "abcdefghijkl"]
    pd.DataFrame(x, columns=regions).to_csv(folder / "_".join(filter(None, words)), sep="\t", index=False)


def _participants(root: Path, cohort: Cohort) -> None:
    people = cohort.table
    rows = {"participant_id": [f"sub-{k:02d}" for k in range(len(people))], "site": people["site"]}
    rows |= {"diagnosis": people["label"].map({1: "patient", 0: "control"}), "age": people["age"]}
    pd.DataFrame(rows).to_csv(root / "participants.tsv", sep="\t", index=False)


def consortium(root: Path, cohort: Cohort) -> None:
    """DCAN's ptseries with follow-ups in the names, beside the composite table of ABIDE II, in Latin-1."""
    import nibabel as nib
    from nibabel import cifti2

    people = cohort.table
    places = [np.array([[i, 0, 0]]) for i in range(cohort.n_rois)]
    names = [f"parcel-{c}" for c in "abcdefghijkl"]
    parcels = cifti2.ParcelsAxis(names, places, [{}] * len(names), affine=np.eye(4), volume_shape=(20, 9, 9))
    root.mkdir(parents=True)
    for k, x in enumerate(cohort.series):
        for session in (1, 2) if k % 5 == 0 else (1,):
            image = cifti2.Cifti2Image(x.astype(np.float32), (cifti2.SeriesAxis(0, 2, len(x)), parcels))
            name = f"sub-{29000 + k}_ses-{session}_task-rest_bold_atlas-Gordon_desc-filtered_timeseries.ptseries.nii"
            nib.save(image, root / name)
    table = pd.DataFrame({"SITE_ID": "ABIDEII-" + people["site"], "SUB_ID": [29000 + k for k in range(len(people))]})
    table["DX_GROUP"], table["AGE_AT_SCAN "] = people["label"].map({1: 1, 0: 2}), people["age"].round(2)
    table["SEX"], table["NOTES"] = people["sex"].map({1: 1, 0: 2}), "Zürich"
    table.to_csv(root / "ABIDEII_Composite_Phenotypic.csv", index=False, encoding="latin-1")


def newcomers(root: Path, cohort: Cohort) -> None:
    """Ids and series, nothing else."""
    for k, x in enumerate(cohort.series, start=1):
        _csv(root / f"patient{k}.csv", x)


def volumes(root: Path) -> None:
    """Derivatives of fMRIPrep."""
    n = 18
    people = pd.DataFrame({"participant_id": [f"sub-{k:02d}" for k in range(1, n + 1)]})
    people["site"] = np.tile(["Oslo", "Rome", "Kyoto"], n // 3)
    people["diagnosis"] = np.tile(np.repeat(["control", "patient"], 3), n // 6)
    people["age"], people["sex"] = np.arange(20, 20 + n), np.tile(["M", "F"], n // 2)
    write_tree(root, people, np.linspace(0.05, 0.4, n).round(2))


def abide(root: Path) -> None:
    """ABIDE as far as a small stand-in goes."""
    rng, rows = np.random.default_rng(0), []
    folder = root / "cpac" / "filt_global"
    folder.mkdir(parents=True)
    for k in range(24):
        site, number = ("PITT", "OLIN", "YALE")[k % 3], 50000 + k
        name = f"{site.title()}_{number:07d}"
        header = "\t".join(f"#{2001 + roi}" for roi in range(116))
        lines = ["\t".join(f"{value:.4f}" for value in row) for row in rng.normal(size=(60, 116))]
        (folder / f"{name}_rois_aal.1D").write_text("\n".join([header, *lines]) + "\n")
        rows.append((number, name, site, 1 + k // 3 % 2, 10 + k, 1 + k % 2, 0.1, 100))
    columns = ["SUB_ID", "FILE_ID", "SITE_ID", "DX_GROUP", "AGE_AT_SCAN", "SEX", "func_mean_fd", "FIQ"]
    pd.DataFrame(rows, columns=columns).to_csv(root / "Phenotypic_V1_0b_preprocessed1.csv", index=False)


def _csv(path: Path, x: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, x, fmt="%.4f", delimiter=",")
