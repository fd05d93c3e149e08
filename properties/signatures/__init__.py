"""What a class takes, and what the names of its parameters suggest. Nothing is called here."""
