"""What is fuzzed: for each target a small valid input on disk, and the call that reads it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from tests.fuzz.commands import build_home, run_command, spoil_data
from tests.fuzz.mutate import mutated, mutated_values

from brainroam.data.cohort import Cohort
from brainroam.data.loading import load_cohort
from brainroam.data.synthetic import make_cohort

RNG = np.random.default_rng(0)
N_VOLUMES, N_ROIS = 12, 4


@dataclass(frozen=True)
class Target:
    """``build`` writes a valid input into a folder, ``read`` reads it; ``spoil`` is how one of its files is changed."""

    name: str
    build: Callable[[Path], None]
    read: Callable[[Path, random.Random], object]
    spoil: Callable[[Path, random.Random], None] = field(default=lambda file, rng: spoil_bytes(file, rng))
    trusted: bool = False  # pickles, opened only on request: they may ask for memory, and are refused if they get none


def spoil_bytes(file: Path, rng: random.Random) -> None:
    """Mutate the bytes of a file."""
    file.write_bytes(mutated(file.read_bytes(), rng))


def spoil_sealed(file: Path, rng: random.Random) -> None:
    """Mutate bytes, or change values and make the checksum right again, as somebody who wants to do harm would."""
    if file.suffix != ".json" or rng.random() < 0.2:
        return spoil_bytes(file, rng)
    import json

    from brainroam.utils.files import write_checksummed

    content = json.loads(file.read_bytes())
    if "checksum" not in content:
        file.write_text(json.dumps(mutated_values(content, rng)))
        return None
    content = {key: value for key, value in content.items() if key not in ("schema", "checksum")}
    changed = mutated_values(content, rng)
    if isinstance(changed, dict):
        write_checksummed(file, changed)
    else:
        file.write_text(json.dumps(changed))
    return None


def series(n_rois: int = N_ROIS) -> np.ndarray:
    """Somebody's series."""
    return np.round(RNG.normal(size=(N_VOLUMES, n_rois)), 4)


def text(x: np.ndarray, header: str = "", mark: str = "\t") -> str:
    """A series as text."""
    return "\n".join([*([header] if header else []), *(mark.join(f"{v:.4f}" for v in row) for row in x)]) + "\n"


def write(path: Path, content: str) -> None:
    """Write a text file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def build_folder(root: Path) -> None:
    """A file of each kind."""
    from scipy.io import savemat

    write(
        root / "participants.tsv",
        "participant_id\tsite\tdiagnosis\tage\tsex\n"
        + "".join(
            f"{name}\t{'AB'[i % 2]}\t{i % 2}\t{20 + i}\tM\n" for i, name in enumerate(("p1", "p2", "p3", "p4", "p5"))
        ),
    )
    write(root / "p1.csv", text(series(), "a,b,c,d", ","))
    write(root / "p2.txt", text(series()))
    np.save(root / "p3.npy", series())
    savemat(root / "p4.mat", {"x": series()}, do_compression=True)
    _ptseries(root / "p5.ptseries.nii")


def _ptseries(path: Path) -> None:
    import nibabel as nib
    from nibabel import cifti2

    voxels = [[i, 0, 0] for i in range(N_ROIS)]
    parcels = cifti2.ParcelsAxis(
        ["a", "b", "c", "d"], [np.array([v]) for v in voxels], [{}] * N_ROIS, affine=np.eye(4), volume_shape=(9, 9, 9)
    )
    image = cifti2.Cifti2Image(series().astype(np.float32), (cifti2.SeriesAxis(0, 2, N_VOLUMES), parcels))
    nib.save(image, path)


def build_xlsx(root: Path) -> None:
    """The table of people as a spreadsheet."""
    root.mkdir(exist_ok=True)
    table = pd.DataFrame({"participant_id": ["p1", "p2"], "site": ["A", "B"], "diagnosis": [0, 1], "age": [20, 30]})
    table.to_excel(root / "participants.xlsx", index=False)
    for name in ("p1", "p2"):
        write(root / f"{name}.1D", text(series(), "#1\t#2\t#3\t#4"))


def build_abide(root: Path) -> None:
    """nilearn's layout."""
    columns = "SUB_ID,FILE_ID,SITE_ID,DX_GROUP,AGE_AT_SCAN,SEX,func_mean_fd,FIQ"
    rows = [f"{i},Olin_005000{i},OLIN,{1 + i % 2},{20 + i},1,0.1,100" for i in range(3)]
    write(root / "Phenotypic_V1_0b_preprocessed1.csv", "\n".join([columns, *rows]) + "\n")
    for i in range(3):
        write(root / f"cpac/filt_global/Olin_005000{i}_rois_ez.1D", text(series(), "#1\t#2\t#3\t#4"))


def build_adhd200(root: Path) -> None:
    """Athena's layout."""
    rows = [f"{i + 1}\t5\t{i % 2}\t{9 + i}\t1\t1" for i in range(3)]
    write(
        root / "adhd200_preprocessed_phenotypics.tsv",
        "\n".join(["ScanDir ID\tSite\tDX\tAge\tGender\tQC_Athena", *rows]) + "\n",
    )
    for i in range(3):
        name = f"{i + 1:07d}"
        write(
            root / f"NYU/{name}/sfnwmrda{name}_session_1_rest_1_ez_TCs.1D",
            text(series(), "#1\t#2\t#3\t#4"),
        )


def build_abcd(root: Path) -> None:
    """Release 5 tables and text series."""
    ids = [f"NDAR_INV{i:08d}" for i in range(3)]
    base = "baseline_year_1_arm_1"
    write(
        root / "abcd_y_lt.csv",
        "src_subject_id,eventname,site_id_l,interview_age,rel_family_id\n"
        + "".join(f"{s},{base},site0{i},120,{i}\n" for i, s in enumerate(ids)),
    )
    write(
        root / "mh_p_ksads_ss.csv",
        "src_subject_id,eventname,ksads_14_853_p,ksads_14_854_p,ksads_14_855_p,ksads_14_856_p\n"
        + "".join(f"{s},{base},{i % 2},0,0,0\n" for i, s in enumerate(ids)),
    )
    write(root / "abcd_p_demo.csv", "src_subject_id,eventname,demo_sex_v2\n" + "".join(f"{s},{base},1\n" for s in ids))
    for s in ids:
        name = "sub-" + s.replace("_", "")
        func = root / f"derivatives/abcd/{name}/ses-baselineYear1Arm1/func"
        write(
            func / f"{name}_ses-baselineYear1Arm1_task-rest_atlas-Gordon_timeseries.tsv", text(series(), "a\tb\tc\td")
        )


def build_srpbs(root: Path) -> None:
    """The release's tables and text series."""
    rows = [f"sub-{i:04d}\tHUH\t{1 + i % 2}\t{2 * (i % 2)}\t{30 + i}\t1\t1" for i in range(4)]
    write(root / "participants.tsv", "\n".join(["participant_id\tsite\tprotocol\tdiag\tage\tsex\thand", *rows]) + "\n")
    write(root / "MRI_protocols_rsMRI.tsv", 'Protocols\nprotocol #\t1\t2\nTR (s)\t2.5\t"2,500"\n')
    for i in range(4):
        write(root / f"timeseries/sub-{i:04d}.csv", text(series(), mark=","))


def build_bids(root: Path) -> None:
    """XCP-D's layout."""
    rows = [f"sub-0{i}\t{'AB'[i % 2]}\t{i % 2}\t{20 + i}" for i in range(3)]
    write(root / "participants.tsv", "\n".join(["participant_id\tsite\tdiagnosis\tage", *rows]) + "\n")
    for i in range(3):
        stem = f"sub-0{i}/func/sub-0{i}_task-rest_seg-Small_stat-mean_timeseries"
        write(root / f"{stem}.tsv", text(series(), "a\tb\tc\td"))
        write(root / f"{stem}.json", '{"RepetitionTime": 2.0}')


def build_rest_meta_mdd(root: Path) -> None:
    """DPARSF's matrices and the spreadsheet."""
    from scipy.io import savemat

    folder = root / "Results" / "ROISignals_FunImgARCWF"
    folder.mkdir(parents=True)
    names = ["S1-1-0001", "S1-2-0001", "S2-2-0001"]
    for name in names:
        signals = RNG.integers(-3, 3, (5, 1568)).astype(np.int8)
        savemat(folder / f"ROISignals_{name}.mat", {"ROISignals": signals}, do_compression=True)
    with pd.ExcelWriter(root / "REST-meta-MDD-PhenotypicData_x.xlsx") as book:
        for sheet, who in {"MDD": names[:1], "Controls": names[1:]}.items():
            pd.DataFrame({"ID": who, "Sex": 1, "Age": 30}).to_excel(book, sheet_name=sheet, index=False)


def build_npy(root: Path) -> None:
    """BrainNetworkTransformer's pickle, in the protocol NumPy writes."""
    root.mkdir(exist_ok=True)
    content = {
        "timeseires": RNG.normal(size=(4, N_ROIS, N_VOLUMES)),
        "label": np.array([0, 1, 0, 1]),
        "site": np.array(list("AABB")),
    }
    np.save(root / "abide.npy", content, allow_pickle=True)  # as its authors publish it


def small_cohort() -> Cohort:
    """Eight people of two sites."""
    return make_cohort(n_sites=2, n_per_site=4, n_rois=8, seed=0)


def build_npz(root: Path) -> None:
    """A file of `Cohort.save`."""
    root.mkdir(exist_ok=True)
    small_cohort().save(root / "cohort.npz")


def build_store(root: Path) -> None:
    """A folder of `brainroam convert`."""
    from brainroam.data.store import write_store

    root.mkdir(exist_ok=True)
    cohort = small_cohort()
    write_store(root / "cohort.zarr", cohort.table, cohort.series, cohort.atlas)


def build_model(root: Path, method: str = "fc-ridge") -> None:
    """A fitted method."""
    from brainroam.methods.registry import method_info
    from brainroam.methods.saving import save_method
    from brainroam.methods.tuning import TunedMethod

    cohort = model_cohort()
    save_method(root / "model", TunedMethod(method_info(method), "fast").fit(cohort), cohort)


@cache
def model_cohort() -> Cohort:
    """What the model of `build_model` is fitted on."""
    return make_cohort(n_sites=3, n_per_site=8, n_rois=8, seed=0)


def spoil_model(file: Path, rng: random.Random) -> None:
    """Mutate bytes, or save other values as a model that is whole."""
    if rng.random() < 0.3:
        return spoil_bytes(file, rng)
    from brainroam.errors import BrainroamError
    from brainroam.utils.model_files import load_model, save_model

    header, arrays = load_model(file.parent)
    header = {k: v for k, v in header.items() if k not in ("sha256", "arrays_sha256", "schema", "versions")}
    if rng.random() < 0.6:
        header = mutated_values(header, rng)
    else:
        name = rng.choice(list(arrays))
        wrong = [
            np.zeros(0),
            np.zeros((2, 2)),
            arrays[name].astype(np.int8),
            arrays[name].ravel()[:1],
            np.float64(np.nan),
        ]
        arrays = {**arrays, name: np.asarray(rng.choice(wrong))}
        if rng.random() < 0.3:
            del arrays[name]
    try:
        save_model(file.parent, header if isinstance(header, dict) else {}, arrays)
    except (BrainroamError, LookupError, ValueError, TypeError):
        spoil_bytes(file, rng)
    return None


def read_model(root: Path, rng: random.Random) -> object:
    """Load it and predict with it."""
    from brainroam.methods.saving import load_method

    method, _ = load_method(root / "model", model_cohort())
    return method.probability(model_cohort())


def build_runs(root: Path) -> None:
    """A finished study."""
    from brainroam.evaluation.runner import evaluate

    evaluate(model_cohort(), ["fc-ridge", "majority"], tuning="fast", out=root / "runs")


def read_runs(root: Path, rng: random.Random) -> object:
    """What `brainroam compare` reads."""
    from brainroam.evaluation.results import load_runs

    return load_runs(root / "runs", partial=rng.random() < 0.5)


def build_study(root: Path) -> None:
    """A study file with every key."""
    write(
        root / "study.yaml",
        "# a study\ndata: synthetic\nreader: auto\natlas: aal\nsites: [A, B]\npreset: paper\n"
        "max_missing_rois: 0.2\noptions:\n  n_sites: 3\n  participants: x.tsv\n"
        "methods:\n  - core[budget=20]\n  - fc-ridge\n"
        "seeds: 1\ntuning: default\njobs: 1\nout: results\n",
    )


def read_study_file(root: Path, rng: random.Random) -> object:
    """Read and validate."""
    from brainroam.data.study_file import read_study

    return read_study(root / "study.yaml")


def reading(reader: str, place: str = ".", **options: object) -> Callable[[Path, random.Random], object]:
    """`load_cohort`, with the reader named or found."""

    def read(root: Path, rng: random.Random) -> object:
        return load_cohort(root / place, rng.choice([reader, "auto"]), require_label=rng.random() < 0.7, **options)

    return read


def read_npy(root: Path, rng: random.Random) -> object:
    """With the trust it asks for, and without."""
    return load_cohort(root / "abide.npy", "npy", **({"allow_pickle": True} if rng.random() < 0.8 else {}))


TARGETS = {
    target.name: target
    for target in (
        Target("folder", build_folder, reading("folder")),
        Target("folder-xlsx", build_xlsx, reading("folder")),
        Target("abide", build_abide, reading("abide")),
        Target("adhd200", build_adhd200, reading("adhd200")),
        Target("abcd", build_abcd, reading("abcd")),
        Target("srpbs", build_srpbs, reading("srpbs")),
        Target("bids", build_bids, reading("bids")),
        Target("rest-meta-mdd", build_rest_meta_mdd, reading("rest-meta-mdd")),
        Target("npy", build_npy, read_npy, trusted=True),
        Target("store-npz", build_npz, reading("store", "cohort.npz")),
        Target("store-zarr", build_store, reading("store", "cohort.zarr"), spoil_sealed),
        Target("model", build_model, read_model, spoil_model),
        Target("model-core", partial(build_model, method="core"), read_model, spoil_model),
        Target("runs", build_runs, read_runs, spoil_sealed),
        Target("study", build_study, read_study_file),
        Target("command-line", build_home, run_command, spoil_data),
    )
}
