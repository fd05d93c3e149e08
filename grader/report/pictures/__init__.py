"""Figures of failed properties as static SVG, each with a caption."""
