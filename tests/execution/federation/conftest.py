"""Four small hospitals, and a pool of three of them after all rounds."""

import pytest
from hospital_rounds import round_of

import brainroam
from brainroam.execution.federation import Pool


@pytest.fixture(scope="session")
def hospitals():
    """People of four sites: one of men only, some who lack regions."""
    return brainroam.make_cohort(n_sites=4, n_per_site=60, n_rois=16, all_male_sites=1, constant_rois=3, seed=1)


@pytest.fixture(scope="session")
def done(hospitals, tmp_path_factory):
    """The folder of the files of all sites, whose pool has finished."""
    folder = tmp_path_factory.mktemp("federation")
    for number in (1, 2, 3):
        pool = Pool(folder / "pool")
        pool.receive(round_of(hospitals, folder, number, folder / "pool"))
        pool.advance()
    return folder
