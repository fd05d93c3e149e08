"""What an exercise asks, as data, and what follows from it."""
