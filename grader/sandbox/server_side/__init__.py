"""The processes between grader and worker: the zygote, the fork servers, and the jail they use."""
