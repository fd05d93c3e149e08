"""Recognise mistakes: attention as a pipeline, faulty steps, their catalogue, and diagnosis."""
