"""Where a submission runs: confined, and unable to reach its verdict."""
