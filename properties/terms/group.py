"""The groups of properties, which earn points."""

from enum import StrEnum


class PropertyGroup(StrEnum):
    """The subject of a property."""

    CONTRACT = "contract"
    VALUES = "values"
    PURITY = "purity"
    BATCH = "batch"
    MASK = "mask"
    CACHE = "cache"
    WEIGHTS = "weights"
    SCALE = "scale"
    HEADS = "heads"
    GRADIENTS = "gradients"
    DROPOUT = "dropout"
    PRECISION = "precision"
    DEVICE = "device"
    INITIALISATION = "initialisation"
