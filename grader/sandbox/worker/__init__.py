"""The code that runs inside the sandbox, next to the submission. It takes no part in grading."""
