"""From what a course downloaded to files of students: layouts, archives, the roster."""
