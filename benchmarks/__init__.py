"""What grading costs, measured as whole processes so that anyone can repeat it."""
