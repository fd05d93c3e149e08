"""The processes between grader and worker: the zygote and the fork servers, with their jail."""
