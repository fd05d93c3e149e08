"""Keep runs, submissions, verdicts and instructors' decisions in SQLite or PostgreSQL."""
