"""What is known of every property without importing torch."""
