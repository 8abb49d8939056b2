"""Print docs/boards.md from the declarations of the fields, and the boards of all targets."""

from collections.abc import Iterator, Sequence
from dataclasses import Field
from textwrap import fill
from typing import get_origin

from docstrings import markdown

from ceras_ir.driver.lists.boards import board_groups
from ceras_ir.support.options import docstring, field_paragraphs, types_of, without_none
from ceras_ir.targets.board_files import (
    choices_of,
    entry_of,
    fields_of,
    is_required,
    rule_of,
    wanted,
)
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets

INTRODUCTION = """\
# Boards

`--board NAME|FILE` selects the hardware of a target: a built-in board, or a TOML file of yours.
`ceras boards` lists the boards, `ceras boards --model MODEL.onnx` those that a model fits
(`--calibrate` as in `ceras compile`), and `ceras boards NAME` prints the fields of a board and the
path of the file.

## Write a board

1. Run `ceras new board MY_BOARD` for a microcontroller, or copy the file of a similar board.
2. Change the values. `ceras boards MY_BOARD.toml` checks the file.
3. Compile with `--board MY_BOARD.toml`.

A microcontroller needs five fields:

```toml
title = "My board"
core = "cortex-m4"
clock_mhz = 48
flash_bytes = 262144
sram_bytes = 32768
```

1. Each field is checked. A message names the file, the field and the accepted values.
2. For target c, a file with `core`, `flash_bytes`, `sram_bytes` or `fqbn` describes a
   microcontroller, and any other file a computer.
3. Target arduino also needs `fqbn` and `architecture`. `fqbn` is the name in
   `arduino-cli board listall`.
4. `reserved_flash_bytes` and `reserved_sram_bytes` are the figures that the IDE prints for your
   program without the model.
5. Target vta also accepts the file `vta_config.json` of VTA.
6. The compiler cannot compare the values with the hardware.
"""

WIDTH = 100


def boards_page() -> str:
    """Return the page."""
    targets = [target for target in all_targets() if target.board_types() or target.boards()]
    parts = [INTRODUCTION.rstrip(), "## Built-in boards"]
    parts.append("The memory of a microcontroller is flash + SRAM.")
    parts += _listed(targets)
    parts.append("## Fields")
    described: dict[type, list[str]] = {}
    for target in targets:
        for kind in target.board_types():
            described.setdefault(kind, []).append(target.name)
    for kind, names in described.items():
        first, _, rest = " ".join(markdown(docstring(kind)).split()).partition(".")
        plural = "s" * (len(names) > 1)
        parts.append(f"### Target{plural} {' and '.join(names)}: {first[0].lower()}{first[1:]}")
        if rest:
            parts.append(fill(rest.strip(), WIDTH))
        parts += _tables(kind, "")
    return "\n\n".join(parts)


def _listed(targets: Sequence[type[Target]]) -> Iterator[str]:
    """Yield a table of the boards for each group of targets that share them."""
    head = ["| board | title | core or part | memory |", "|---|---|---|---|"]
    for names, boards in board_groups(targets).items():
        plural = "s" * (" and " in names)
        rows = [f"| `{n}` | {s.title} | {s.part} | {s.memory} |" for n, s in boards]
        yield "\n".join([f"**Target{plural} {names}**", "", *head, *rows])


def _tables(kind: type, path: str) -> Iterator[str]:
    """Yield the table of the fields of `kind`, and the tables of the nested tables."""
    hints, texts = types_of(kind), field_paragraphs(kind)
    rows, nested = ["| field | values | default | meaning |", "|---|---|---|---|"], list[str]()
    for each in fields_of(kind):
        hint = without_none(hints[each.name])
        text = " ".join(texts[each.name])
        entry, where = entry_of(hint), f"{path}.{each.name}" if path else each.name
        if entry is None:
            rows.append(f"| `{each.name}` | {_values(hint, each)} | {_default(each)} | {text} |")
            continue
        choices = rule_of(each).choices
        heading = f"`[{where}.NAME]`" if choices else f"`[{where}]`"
        is_list = get_origin(hint) is tuple
        heading = f"`[[{where}]]`" if is_list else heading
        need = "" if is_required(each) else " (optional)"
        lines = [f"{heading}{need}: {text}"]
        if choices:
            lines.append(f"`NAME` is one of {', '.join(f'`{choice}`' for choice in choices)}.")
        nested += [fill(" ".join(lines), WIDTH), *_tables(entry, where)]
    if len(rows) > 2:
        yield "\n".join(rows)
    yield from nested


def _values(hint: object, each: Field[object]) -> str:
    rule = rule_of(each)
    if choices := rule.choices or choices_of(hint):
        return ", ".join(f"`{choice}`" for choice in choices)
    text = wanted(hint, rule)
    # Examples are part of messages; the page has them in the files.
    return text.partition(" such as")[0]


def _default(each: Field[object]) -> str:
    if is_required(each):
        return "required"
    return "" if each.default in (None, "") else f"`{each.default}`"
