"""Holds files and functions to the sizes that a reader can take in: 400 and 60 lines at the most."""

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("libs", "services", "scripts", "tests")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
JUNK_DRAWERS = {"utils", "util", "common", "helpers", "base", "misc"}


def functions(tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the first line and the length of every function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def main() -> int:
    """Print what is too large; return the number of such places."""
    faults: list[str] = []
    file_lines: list[int] = []
    function_lines: list[int] = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        text, place = path.read_text("utf-8"), path.relative_to(ROOT)
        file_lines.append(text.count("\n"))
        if file_lines[-1] > MAX_FILE_LINES:
            faults.append(f"{place}: {file_lines[-1]} lines, at most {MAX_FILE_LINES}")
        if path.stem in JUNK_DRAWERS:
            faults.append(f"{place}: a name that says nothing")
        for name, line, length in functions(ast.parse(text)):
            function_lines.append(length)
            if length > MAX_FUNCTION_LINES:
                faults.append(f"{place}:{line}: {name} has {length} lines, at most {MAX_FUNCTION_LINES}")
    print("\n".join(faults), end="\n" if faults else "")
    print(
        f"sizes: {len(file_lines)} files, median {statistics.median(file_lines):.0f} lines; "
        f"{len(function_lines)} functions, median {statistics.median(function_lines):.0f} lines"
    )
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
