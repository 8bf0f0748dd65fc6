"""Examples in documents: a command after `$` in a console block, and what it prints."""

from __future__ import annotations

import pathlib
import re


def console_examples(document: pathlib.Path) -> list[tuple[str, str]]:
    """(command, output) of every ```console block of `document`, in order; trailing blanks of lines are dropped."""
    blocks = re.findall(r"^```console\n(.*?)^```$", document.read_text(), re.S | re.M)
    examples = []
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            examples.append((command, trimmed(output)))
    return examples


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
