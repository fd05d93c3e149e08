"""What runs inside the sandbox, next to the submission. It knows nothing of the judge."""
