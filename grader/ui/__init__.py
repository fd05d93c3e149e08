"""How people reach the grader: the command, notebooks, pytest."""
