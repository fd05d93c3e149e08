"""The grader's side of the boundary: starts sandboxes, and communicates with submissions."""
