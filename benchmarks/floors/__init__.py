"""The floors: the least work of any implementation. They are frozen, because the budget compares with them."""
