"""The outline of the brain for the 3-D view: the cortex of fsaverage, as nilearn ships it, smoothed and thinned out.

fsaverage5 is a subdivided icosahedron: its first 642 vertices are those of a coarser one, whose faces are the convex
hull of the same vertices on the sphere. The cerebellum is no part of it.
"""

from functools import cache

import numpy as np

COARSE = 642
SMOOTHING = 12


@cache
def outline() -> tuple[list[list[int]], list[list[int]]]:
    """Vertices in millimetres and triangles that face outwards, both hemispheres.

    >>> vertices, faces = outline()
    >>> len(vertices), len(faces)
    (1284, 2560)
    """
    from nilearn.datasets import load_fsaverage

    pial, sphere = (load_fsaverage("fsaverage5")[part].parts for part in ("pial", "sphere"))
    vertices, faces = [], []
    for k, side in enumerate(("left", "right")):
        vertices.append(_smoothed(pial[side].coordinates, pial[side].faces)[:COARSE])
        faces.append(_hull(sphere[side].coordinates[:COARSE]) + k * COARSE)
    return np.rint(np.concatenate(vertices)).astype(int).tolist(), np.concatenate(faces).tolist()


def _smoothed(coordinates: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Each vertex at the mean of its neighbours, several times, and then stretched back to the size it had."""
    from scipy.sparse import coo_array

    n = len(coordinates)
    a, b = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).T
    links = coo_array((np.ones(len(a)), (a, b)), shape=(n, n)).tocsr()
    degree = np.asarray(links.sum(axis=1)).ravel()[:, None]
    smooth = np.asarray(coordinates, dtype=float)
    for _ in range(SMOOTHING):
        smooth = 0.5 * (smooth + links @ smooth / degree)
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    return low + (smooth - smooth.min(axis=0)) * (high - low) / np.ptp(smooth, axis=0)


def _hull(sphere: np.ndarray) -> np.ndarray:
    """Triangles of points on a sphere, wound so that they face outwards."""
    from scipy.spatial import ConvexHull

    faces = ConvexHull(sphere).simplices
    a, b, c = (sphere[faces[:, k]] for k in range(3))
    inwards = (np.cross(b - a, c - a) * a).sum(axis=1) < 0
    faces[inwards] = faces[inwards][:, ::-1]
    return faces[np.lexsort(faces.T)]
