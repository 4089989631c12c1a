"""Running the paper's items: on which processes, what is kept of them, all of them with one call."""
