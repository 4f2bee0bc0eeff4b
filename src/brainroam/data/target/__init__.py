"""What is predicted: two classes, several, ordered ones, or a number; see `brainroam.data.target.base`."""

from brainroam.data.target.base import Target
from brainroam.data.target.labels import MOST_CLASSES, is_control, several_classes, two_classes
from brainroam.data.target.number import Number, Ordered
from brainroam.data.target.request import CLASSES, KINDS, NUMBER, ORDERED, TRANSFORMS, TWO, TargetRequest
from brainroam.data.target.several import Classes
from brainroam.data.target.two import TWO_CLASSES, TwoClasses

__all__ = [
    "CLASSES",
    "KINDS",
    "MOST_CLASSES",
    "NUMBER",
    "ORDERED",
    "TRANSFORMS",
    "TWO",
    "TWO_CLASSES",
    "Classes",
    "Number",
    "Ordered",
    "Target",
    "TargetRequest",
    "TwoClasses",
    "is_control",
    "several_classes",
    "two_classes",
]
