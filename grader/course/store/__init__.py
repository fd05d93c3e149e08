"""Where the results of a course are kept, and what a run was."""
