"""Import the operations of TOSA, a module for each subject."""
