"""The code that runs inside the sandbox, next to the submission. It decides no verdicts."""
