"""Small studies as people have them, each wrong or odd in one way, and what is right about them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.valid_but_wrong.campaign import typed

import brainroam
from brainroam.data.readers.locate import unpadded

N = 12
HEADER = ("participant_id", "site", "diagnosis", "age", "sex")
ROWS = [
    (f"{k:02d}", "AB"[k % 2], ("HC", "ASD")[k // 2 % 2], f"{20 + k / 2}", "MF"[k % 3 == 0]) for k in range(1, N + 1)
]
AGES = [20 + k / 2 for k in range(1, N + 1)]
MALE = [float(k % 3 != 0) for k in range(1, N + 1)]
LABELS = [k // 2 % 2 for k in range(1, N + 1)]


def series(seed: int, n_volumes: int = 30, n_rois: int = 4) -> np.ndarray:
    return np.round(np.random.default_rng(seed).normal(0, 5, (n_volumes, n_rois)), 4)


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def as_text(rows: list, header: tuple = HEADER, mark: str = ",") -> str:
    return "".join(mark.join(row) + "\n" for row in [header, *rows])


def replaced(column: str, change: Callable[[str], str]) -> list:
    """The rows with every cell of a column changed."""
    k = HEADER.index(column)
    return [(*row[:k], change(row[k]), *row[k + 1 :]) for row in ROWS]


Maker = Callable[[int], np.ndarray]


def put_series(folder: Path, name: str = "data/{}.csv", array: Maker = series, head: str = "") -> None:
    for k, row in enumerate(ROWS, start=1):
        path = folder / name.format(row[0], row[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npy":
            np.save(path, array(k))
        else:
            rows = "".join(",".join(f"{value:.4f}" for value in line) + "\n" for line in array(k))
            path.write_text(head + rows)


def table(content: str | bytes, name: str = "participants.csv") -> Callable[[Path], None]:
    """A study with this table."""

    def make(folder: Path) -> None:
        put_series(folder)
        write(folder / "data" / name, content)

    return make


def sheets(*frames: tuple[str, pd.DataFrame], startrow: int = 0, name: str = "participants.xlsx") -> Callable:
    def make(folder: Path) -> None:
        put_series(folder)
        with pd.ExcelWriter(folder / "data" / name) as book:
            for title, frame in frames:
                frame.to_excel(book, sheet_name=title, index=False, startrow=startrow)

    return make


def scans(array: Callable[[int], np.ndarray], head: str = "", name: str = "data/{}.csv") -> Callable[[Path], None]:
    """A study with these series."""

    def make(folder: Path) -> None:
        put_series(folder, name, array, head)
        write(folder / "data" / "participants.csv", as_text(ROWS))

    return make


def layout(name: str, people: str = "data/people.csv", content: str | None = None) -> Callable[[Path], None]:
    """A study with its files at these places."""

    def make(folder: Path) -> None:
        put_series(folder, name)
        write(folder / people, content or as_text(ROWS))

    return make


def load(**options: Any) -> Callable[[Path], Any]:
    return lambda folder: brainroam.load_cohort(folder / "data", **options)


def whole(cohort: Any) -> bool:
    """Everybody, with the right ages, sexes, labels and series."""
    people = cohort.table
    return (
        people["subject"].map(lambda name: name.removeprefix("sub-").zfill(2)).tolist() == [row[0] for row in ROWS]
        and np.allclose(people["age"], AGES)
        and people["sex"].tolist() == MALE
        and people["label"].tolist() == LABELS
        and all(np.array_equal(x, series(k)) for k, x in enumerate(cohort.series, start=1))
    )


def same_series(cohort: Any) -> bool:
    return all(np.array_equal(x, series(k)) for k, x in enumerate(cohort.series, start=1))


def studied(result: Any) -> bool:
    """What `init` wrote loads everybody rightly, in whatever order."""
    cohort = brainroam.load_cohort("study.yaml")
    return whole(cohort.subset(np.argsort(cohort.table["subject"].map(unpadded).astype(int))))


def init(extra: str = "") -> str:
    return f"init data {extra}"


def timed(start: float = 0.0, step: float = 2.0) -> Callable[[int], np.ndarray]:
    return lambda k: np.column_stack([start + step * np.arange(30), series(k)])


FRAME = pd.DataFrame(ROWS, columns=HEADER)
NAMES = "a,b,c,d\n"
SEX_SAID = "say what they mean with sex_codes"


def comma(text: str) -> str:
    return text.replace(".", ",")


def sexed(male: str, female: str) -> str:
    return as_text(replaced("sex", lambda sex: male if sex == "M" else female))


def labelled(case: str, control: str) -> str:
    return as_text(replaced("diagnosis", lambda code: case if code == "ASD" else control))


def formulas(folder: Path) -> None:
    put_series(folder)
    frame = FRAME.assign(age=[f"=20+{k}/2" for k in range(1, N + 1)])
    frame.to_excel(folder / "data" / "participants.xlsx", index=False)


def sidecar(folder: Path) -> None:
    table(as_text(replaced("sex", lambda sex: "12"[sex == "F"]), mark="\t"), "participants.tsv")(folder)
    write(folder / "data" / "participants.json", '{"sex": {"Levels": {"1": "male", "2": "female"}}}')


def two_tables(clinic: str, name: str = "clinic.csv") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        put_series(folder)
        rows = [(row[0], row[1], row[3], row[4]) for row in ROWS]
        write(folder / "data" / "people.csv", as_text(rows, ("participant_id", "site", "age", "sex")))
        write(folder / "data" / name, clinic)

    return make


CLINIC = as_text([(str(int(row[0])), row[2]) for row in reversed(ROWS)], ("Code", "Diagnosis"), ";")
JOINED = {"reader": "folder", "participants": ["data/people.csv", "data/clinic.csv"], "label_col": "Diagnosis"}


def relative(**options: Any) -> Callable[[Path], Any]:
    return lambda folder: brainroam.load_cohort("data", **options)


def linked(folder: Path) -> None:
    put_series(folder, "store/{}.csv")
    write(folder / "data" / "participants.csv", as_text(ROWS))
    (folder / "data" / "timeseries").symlink_to(folder / "store")
    (folder / "store" / "back").symlink_to(folder / "data")


def deep_links(folder: Path) -> None:
    put_series(folder, "store/{}/rest.csv")
    write(folder / "data" / "people.csv", as_text(ROWS))
    for row in ROWS:
        (folder / "data" / row[0]).symlink_to(folder / "store" / row[0])
    (folder / "data" / "loop").symlink_to(folder / "data")


def sessions(folder: Path, n_runs: int = 1, mark: str = "ses-{}") -> None:
    write(folder / "data" / "participants.csv", as_text(ROWS))
    for k, row in enumerate(ROWS, start=1):
        for session in (1, 2) if k <= 3 else (1,):
            for run in range(1, n_runs + 1):
                seed = k + 100 * (session - 1) + 1000 * (run - 1)
                tail = f"_run-{run}" if n_runs > 1 else ""
                path = folder / "data" / f"sub-{row[0]}_{mark.format(session)}{tail}.csv"
                np.savetxt(path, series(seed), fmt="%.4f", delimiter=",")


def long_table(folder: Path) -> None:
    sessions(folder)
    rows = [(*row, "1") for row in ROWS] + [(*row[:3], f"{float(row[3]) + 2}", row[4], "2") for row in ROWS[:3]]
    write(folder / "data" / "participants.csv", as_text(rows, (*HEADER, "session_id")))


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def consortium(folder: Path) -> None:
    """DCAN files with sessions in the name and ABIDE II's table: a blank ends a column name, Latin-1 inside."""
    import nibabel as nib
    from nibabel import cifti2

    header = ("SITE_ID", "SUB_ID", "DX_GROUP", "AGE_AT_SCAN ", "SEX", "NOTES")
    rows = [
        (f"ABIDEII-{row[1]}", str(29000 + k), "12"[row[2] == "HC"], row[3], "12"[row[4] == "F"], "Zürich")
        for k, row in enumerate(ROWS, start=1)
    ]
    write(folder / "data" / "ABIDEII_Composite_Phenotypic.csv", as_text(rows, header).encode("latin-1"))
    places = [np.array([[i, 0, 0]]) for i in range(4)]
    parcels = cifti2.ParcelsAxis(list("abcd"), places, [{}] * 4, affine=np.eye(4), volume_shape=(9, 9, 9))
    for k in range(1, N + 1):
        for session in (1, 2) if k <= 2 else (1,):
            values = series(k + 100 * (session - 1)).astype(np.float32)
            image = cifti2.Cifti2Image(values, (cifti2.SeriesAxis(0, 2, len(values)), parcels))
            name = f"sub-{29000 + k}_ses-{session}_task-rest_bold_atlas-Gordon_desc-filtered_timeseries.ptseries.nii"
            nib.save(image, folder / "data" / name)


def adhd_below(folder: Path) -> None:
    root = folder / "data" / "download" / "ADHD200_AAL_TCs_filtfix"
    lines = ["ScanDir ID\tSite\tDX\tAge\tGender\tQC_Athena"]
    for k in range(1, 9):
        site = "NYU" if k % 2 else "KKI"
        name = f"sfnwmrda{k:07d}_session_1_rest_1_aal_TCs.1D"
        rows = "".join("x\t0\t" + "\t".join(map(str, line)) + "\n" for line in series(k, n_rois=116))
        header = "\t".join(["File", "Sub-brick", *(f"Mean_{i}" for i in range(116))])
        write(root / site / f"{k:07d}" / name, f"{header}\n{rows}")
        lines.append(f"{k}\t5\t{k % 3 % 2}\t10\t1\t1")
    write(root / "adhd200_preprocessed_phenotypics.tsv", "\n".join(lines) + "\n")


def srpbs(folder: Path) -> None:
    rows = [(f"sub-{row[0]}", row[1], "1", "02"[row[2] == "ASD"], row[3], "12"[row[4] == "F"]) for row in ROWS]
    header = ("participant_id", "site", "protocol", "diag", "age", "sex")
    write(folder / "data" / "participants.tsv", as_text(rows, header, "\t"))
    put_series(folder, "data/derivatives/timeseries/sub-{}_aal.csv")


def predicted(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """A model of the usual study, and other people in ``new``."""

    def both(folder: Path) -> None:
        from brainroam.data.cohort import Cohort

        people = FRAME.assign(subject=FRAME["participant_id"], label=LABELS, sex=MALE, age=AGES)
        cohort = Cohort([series(k) for k in range(1, N + 1)], people[["subject", "site", "label", "age", "sex"]])
        cohort.save(folder / "cohort.npz")
        make(folder)

    return both


def fit_and_predict(new: str) -> Callable[[Path], pd.DataFrame]:
    def do(folder: Path) -> pd.DataFrame:
        for line in ("fit cohort.npz --method fc-ridge --tuning fast", f"predict model {new}"):
            outcome, said, _ = typed(line)
            assert outcome == "done", said
        return pd.read_csv("predictions.csv", dtype={"subject": str})

    return do


def only_series(folder: Path) -> None:
    for name in ("p1", "p2"):
        write(folder / "new" / f"{name}.csv", "\n".join(",".join(map(str, line)) for line in series(ord(name[1]))))


def only_ids(folder: Path) -> None:
    only_series(folder)
    write(folder / "new" / "participants.csv", "participant_id\np1\np2\n")


def two_people(predictions: pd.DataFrame) -> bool:
    return predictions["subject"].tolist() == ["p1", "p2"] and predictions["probability"].between(0, 1).all()


def study_file(folder: Path) -> None:
    table(as_text(replaced("sex", lambda sex: "12"[sex == "F"])), "people.csv")(folder)
    write(
        folder / "study.yaml",
        "data: data\nreader: folder\nsites: [A]\noptions:\n  participants: data/people.csv\n"
        "  sex_codes: {1: male, 2: female}\nmethods: [fc-ridge]\n",
    )


def agrees_with_the_command(cohort: Any) -> bool:
    import json

    _, said, _ = typed("check study.yaml --json")
    return json.loads(said)["manifest_hash"] == cohort.manifest_hash


def family(folder: Path) -> None:
    rows = [(*row, f"f{k // 2}") for k, row in enumerate(ROWS)]
    table(as_text(rows, (*HEADER, "family_id")))(folder)


def no_tables(folder: Path) -> None:
    put_series(folder)


def nothing(folder: Path) -> None:
    (folder / "data").mkdir()


WITHOUT_SITE = as_text([(row[0], *row[2:]) for row in ROWS], (HEADER[0], *HEADER[2:]))
GERMAN = "sep=;\r\n" + as_text(replaced("sex", lambda sex: {"M": "männlich", "F": "weiblich"}[sex]), mark=";").replace(
    "participant_id;site;diagnosis;age;sex", "Proband;Standort;Diagnose;Alter;Geschlecht"
).replace(".5;", ",5;").replace(".0;", ",0;")
TITLE = "Our study, final version\n\n"
