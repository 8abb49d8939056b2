"""Networks in torch, and their training: weights change, zeros and everything else stay."""
