"""Record which options of a command line are read, so that options without effect are reported."""

import argparse


class RecordedArguments(argparse.Namespace):
    """
    Parsed arguments that record which attributes are read, so that options without effect are
    found.
    """

    def __init__(self, arguments: argparse.Namespace):
        super().__init__(**vars(arguments))
        self._read = set[str]()

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_"):
            self._read.add(name)
        return super().__getattribute__(name)

    def unread(self, defaults: argparse.Namespace) -> list[str]:
        """
        Return the flags of options that the user changed from `defaults` and that no code has read.
        """
        given = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        known = vars(defaults)
        return [
            f"--{name.replace('_', '-')}"
            for name, value in given.items()
            if name not in self._read and (name not in known or known[name] != value)
        ]
