"""Detect sites that may be one, and ask."""

from collections import Counter
from collections.abc import Iterable

from brainroam.data.detect.guess import Guess, Question
from brainroam.data.names import canonical
from brainroam.data.spellings import as_one, as_several, common_name, site_names_text, undecided
from brainroam.errors import listed


def look_at_sites(sites: Iterable[str], guess: Guess) -> None:
    """Add ``site_names`` to a guess for names that differ in case and punctuation only; ask about others alike.

    ``sites`` has the site of everybody.
    """
    people = Counter(site for site in sites if site)
    known = guess.like.get("site_names") or {}
    guess.site_names = {name: known[name] for name in known if name in people} | guess.site_names
    for group in undecided(people, guess.site_names):
        counts = Counter({name: people[name] for name in group})
        if len(set(map(canonical, group))) == 1:
            guess.site_names |= as_one(counts)
            guess.remarks["site_names"] = f"differ in case and punctuation only: {listed(map(repr, group))}"
            continue
        named = " and ".join(f"{name!r} ({n} people)" for name, n in counts.items())
        text = (
            f"Are {named} one site? If so, take the first answer (they are called {common_name(counts)!r}); "
            "if not, the second"
        )
        choices = (site_names_text(as_one(counts)), site_names_text(as_several(group)))
        guess.questions.append(Question("site_names", text, choices))
