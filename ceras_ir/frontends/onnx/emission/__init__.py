"""Values of a model during the import, and the operations that compute them."""
