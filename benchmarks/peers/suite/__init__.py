"""What a course would write; copied beside the submissions and run there."""
