"""Reports on submissions: their records, points, feedback levels and rendered forms."""
