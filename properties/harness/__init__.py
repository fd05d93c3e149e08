"""A submission made ready to be checked: constructed, given parameters, called, aged."""
