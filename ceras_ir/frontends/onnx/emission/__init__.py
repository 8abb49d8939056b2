"""The values of a model during the import, and the operations that are made of them."""
