"""The grader's side of the boundary: it starts sandboxes and communicates with submissions."""
