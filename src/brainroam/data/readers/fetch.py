"""Download ABIDE for people with a network; say what to do by hand for people without one."""

from collections.abc import Sequence
from pathlib import Path

from brainroam.data.readers.abide import PIPELINES, STRATEGIES
from brainroam.errors import BrainroamError, unknown

URL = "https://s3.amazonaws.com/fcp-indi/data/Projects/ABIDE_Initiative"
TABLE = "Phenotypic_V1_0b_preprocessed1.csv"


def fetch_abide(
    data_dir: str | Path,
    *,
    roi_sets: Sequence[str] = ("aal",),
    pipeline: str = "cpac",
    strategy: str = "filt_global",
    sites: Sequence[str] | None = None,
) -> Path:
    """Download ABIDE ROI series with nilearn's fetcher into ``data_dir/ABIDE_pcp`` and return that folder.

    Files that are there already are not fetched again. Nobody is left out for quality: choose that when loading.

    Examples
    --------
    >>> folder = fetch_abide("data", sites=["OLIN"])  # doctest: +SKIP
    >>> cohort = brainroam.load_cohort(folder)  # doctest: +SKIP
    """
    for kind, value, known in (("pipeline", pipeline, PIPELINES), ("strategy", strategy, STRATEGIES)):
        if value not in known:
            raise unknown(kind, value, known)
    from nilearn.datasets import fetch_abide_pcp

    data_dir = Path(data_dir)
    chosen = {} if sites is None else {"SITE_ID": list(sites)}
    try:
        fetch_abide_pcp(
            data_dir=str(data_dir),
            pipeline=pipeline,
            band_pass_filtering=strategy.startswith("filt"),
            global_signal_regression=strategy.endswith("_global"),
            derivatives=[f"rois_{name}" for name in roi_sets],
            quality_checked=False,
            verbose=0,
            **chosen,
        )
    except KeyError as error:
        raise BrainroamError(f"ABIDE has no such ROI set: {error.args[0]}") from error
    except OSError as error:  # every network error of requests and urllib is one
        target = data_dir / "ABIDE_pcp"
        raise BrainroamError(
            f"ABIDE could not be fetched ({type(error).__name__}). By hand, from a machine with a network: "
            f"put {URL}/{TABLE} into {target}, and for each FILE_ID of that table "
            f"{URL}/Outputs/{pipeline}/{strategy}/rois_<set>/<FILE_ID>_rois_<set>.1D "
            f"into {target / pipeline / strategy}; then load {target}"
        ) from error
    return data_dir / "ABIDE_pcp"
