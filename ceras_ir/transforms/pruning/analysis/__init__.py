"""Which weights go, what their absence costs, and how many of each layer may go."""
