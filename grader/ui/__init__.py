"""The user interfaces of the grader: the command line, notebooks, and a pytest plugin."""
