"""Four small hospitals, and a pool of three of them after all rounds."""

import pytest

import brainroam
from brainroam.execution.federation import Pool, answer
from brainroam.execution.federation.files import REQUEST, read_message


@pytest.fixture(scope="session")
def hospitals():
    """People of four sites: one of men only, some who lack regions."""
    return brainroam.make_cohort(n_sites=4, n_per_site=60, n_rois=16, all_male_sites=1, constant_rois=3, seed=1)


def round_of(cohort, folder, number, pool, names=None, **options):
    """The files with which the sites answer the pool."""
    request = None if number == 1 else read_message(pool / "request", REQUEST)
    sites = cohort.sites if names is None else names
    return [
        answer(cohort.select([name]), request, **options).write(folder / f"{name}-{number}.summary") for name in sites
    ]


@pytest.fixture(scope="session")
def done(hospitals, tmp_path_factory):
    """The folder of the files of all sites, whose pool has finished."""
    folder = tmp_path_factory.mktemp("federation")
    for number in (1, 2, 3):
        pool = Pool(folder / "pool")
        pool.receive(round_of(hospitals, folder, number, folder / "pool"))
        pool.advance()
    return folder
