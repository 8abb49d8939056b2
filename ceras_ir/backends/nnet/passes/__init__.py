"""The passes of target nnet, one a file."""
