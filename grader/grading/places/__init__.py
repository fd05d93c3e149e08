"""Where an answer goes wrong: the stages of attention, looked for in what its code computes."""
