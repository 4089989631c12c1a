"""Output, errors and progress of the commands: results on standard output, the rest on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand

from pesn._support.files import check_writable as check_writable_path
from pesn._support.files import naming

if TYPE_CHECKING:
    from rich.console import Console


class Several(TyperCommand):
    """A command some of whose

    Options end at the next one; of names, the last is FILE where nothing else is.
    """

    several: ClassVar = {"--level": True, "--season": True, "--target": False, "--inputs": False}  # whether words are numbers

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after each word has its own flag."""
        return super().parse_args(ctx, self.expand(args))

    @classmethod
    def expand(cls, args: list[str]) -> list[str]:
        """Return the arguments with a flag before each word.

        >>> Several.expand(["--level", "0.8", "0.95", "a.csv"]), Several.expand(["--target", "x", "y", "a.csv"])
        (['--level', '0.8', '--level', '0.95', 'a.csv'], ['--target', 'x', '--target', 'y', 'a.csv'])
        """
        words, parts = deque(args), list[list[str]]()
        ends: list[int] = []  # of groups of names, the last of which may be FILE
        free = False  # whether FILE is elsewhere
        while words:
            word = words.popleft()
            if word == "--":
                free |= bool(words)
                parts.append([word, *words])
                break
            if word in cls.several:
                group = cls._take(word, words)
                parts += [[word, one] for one in group] or [[word]]
                ends += [len(parts) - 1] * (len(group) > 1 and not cls.several[word])
            elif words and word.startswith("--") and "=" not in word and word != "--help":
                parts.append([word, words.popleft()])
            else:
                parts.append([word])
                free |= not word.startswith("-")
        if ends and not free:
            del parts[cls._find_file(parts, ends)][0]
        return [word for part in parts for word in part]

    @staticmethod
    def _find_file(parts: list[list[str]], ends: list[int]) -> int:
        """Return which end of a group of names is FILE: the last that looks like one, else the last."""
        files = [i for i in ends if Path(parts[i][1]).suffix.lower() in (".csv", ".tsv", ".txt", ".parquet", ".pq")]
        return (files or ends)[-1]

    @classmethod
    def _take(cls, option: str, words: deque[str]) -> list[str]:
        """Take the words of an option: one, and those after it up to the next option, or that are numbers where it has such."""
        group = [words.popleft()] if words else []
        while words and not words[0].startswith("--") and (not cls.several[option] or _is_number(words[0])):
            group.append(words.popleft())
        return group


def option(metavar: str | None, text: str, shown: str | None = None, *, name: str | None = None) -> Any:
    """Return an option of a command.

    Parameters
    ----------
    metavar : str or None
        Placeholder of its value in the help; None: its type.
    text : str
        Help text.
    shown : str, optional
        Description of the default; None: the default itself.
    name : str, optional
        Name, such as "--id"; None: that of the parameter.
    """
    return typer.Option(*([] if name is None else [name]), metavar=metavar, help=text, show_default=shown or True)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def console() -> Console:
    """Return a console on standard error; colors only where it is a terminal."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, no_color=None if sys.stderr.isatty() else True)


def say(line: str) -> None:
    """Print a line on standard output, if there is any."""
    if sys.stdout is None:
        return
    coding = sys.stdout.encoding or "utf-8"
    print(line.encode(coding, "backslashreplace").decode(coding))  # a file's name may be none that can be shown


def check_writable(option: str, path: Path, kinds: tuple[str, ...]) -> None:
    """Check a path before the work is done that the file would hold."""
    suffix = path.suffix.lower()
    if suffix not in kinds:
        raise ValueError(f"{option} must end in {', '.join(kinds[:-1])} or {kinds[-1]}, got '{path}'")
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError(f"{option} needs pyarrow for a .parquet file: pip install 'pesn[parquet]'; or give a .csv file")
    with naming(path):
        check_writable_path(path)


@contextlib.contextmanager
def stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Yield a function that begins a stage of the work and returns its progress callback: bars on a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield lambda what: lambda done, total: None
        return
    from rich.progress import Progress

    with Progress(console=console(), transient=True) as bar:

        def stage(what: str) -> Callable[[int, int], None]:
            task = bar.add_task(what, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield stage


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors into one line on standard error and an exit code."""
    try:
        yield
    except ValueError as error:
        from pesn.series.table.numerals import DataError  # the call was right, and the data would not do

        fail(1 if isinstance(error, DataError) else 2, str(error))
    except BrokenPipeError:
        raise  # nobody reads on: that is no fault
    except (OSError, FloatingPointError, MemoryError, ImportError) as error:
        fail(1, str(error) or type(error).__name__)
    except KeyboardInterrupt:
        fail(130, "interrupted")


def fail(code: int, message: str) -> NoReturn:
    """Print a line on standard error and exit."""
    print("pesn:", " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)
