"""The sandbox: runs submissions in confined processes that cannot reach their verdicts."""
