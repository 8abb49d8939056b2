"""Networks in torch, and training that changes weights but not zeros."""
