"""What grading costs beside the tools that courses use today: `python -m benchmarks.peers`."""
