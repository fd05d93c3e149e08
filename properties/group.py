"""What claims are about: the groups that points are given for."""

from enum import StrEnum


class PropertyGroup(StrEnum):
    """What a property is about."""

    CONTRACT = "contract"
    VALUES = "values"
    PURITY = "purity"
    BATCH = "batch"
    MASK = "mask"
    WEIGHTS = "weights"
    SCALE = "scale"
    HEADS = "heads"
    GRADIENTS = "gradients"
    DROPOUT = "dropout"
    PRECISION = "precision"
    DEVICE = "device"
    INITIALISATION = "initialisation"
