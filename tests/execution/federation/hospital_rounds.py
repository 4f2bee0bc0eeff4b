"""What hospitals answer in a round."""

from brainroam.execution.federation import answer
from brainroam.execution.federation.files import REQUEST, read_message


def round_of(cohort, folder, number, pool, names=None, **options):
    """The files with which the sites answer the pool."""
    request = None if number == 1 else read_message(pool / "request", REQUEST)
    sites = cohort.sites if names is None else names
    return [
        answer(cohort.select([name]), request, **options).write(folder / f"{name}-{number}.summary") for name in sites
    ]
