"""Figure 3: t-SNE of CORE beside BrainOOD."""

from brainroam.report.brain.people import draw_maps, neighbourhood, t_sne
from brainroam.report.brain.study_explanations import embeddings
from brainroam.report.page import Drawing
from reproduction.page.content import Part
from reproduction.page.data import PaperData
from reproduction.page.published import CLAIMS

CAPTION = (
    "t-SNE of the held-out people of all folds (PCA start, seed 0). Left: what they have; right: the fold that held "
    "them out. Axes are centred and scaled within each fold, so a difference of level between folds cannot show."
)


def embedding(data: PaperData) -> Part:
    """What the decision is made from, by diagnosis and by site."""
    title = "Figure 3: t-SNE"
    wanted = (data.paper.complete, data.paper.core, "brainood")
    spaces = {name: found for name in wanted if data.report and (found := embeddings(data.report, name))}
    missing = [name for name in wanted if name not in spaces]
    unfinished = (f"Not run yet: {', '.join(missing)}.",) if missing else ()
    if not spaces:
        return Part("figure-3", title, unfinished)
    maps = {name: (t_sne(points), people) for name, (points, people) in spaces.items()}
    drawing = Drawing("paper-embedding", CAPTION, lambda: draw_maps(maps))
    sentences = [neighbourhood(name, *found) for name, found in spaces.items()]
    claim = f"The paper: {CLAIMS['embedding']}. It does not say from which layer, or whether of training people."
    return Part("figure-3", title, (claim, drawing, " ".join(sentences), *unfinished))
