"""The grader's side of the boundary: what starts sandboxes, and speaks to a submission in one."""
