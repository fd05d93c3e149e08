"""Naming mistakes: attention as a pipeline, faulty steps, their catalogue, and who made which."""
