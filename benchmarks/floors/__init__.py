"""The least that any implementation would have to do, frozen: what a budget compares with must not move."""
