"""Between the two sides: the zygote, the fork servers, and the jail that they put children in."""
