"""Pictures of what went wrong, as static SVG, each with the sentence that it shows."""
