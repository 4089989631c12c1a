"""Options that take several words after one flag."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from typer.core import TyperCommand

__all__ = ["Several"]


class Several(TyperCommand):
    """A command some of whose options take several words after one flag: ``--level 0.8 0.95`` is ``--level 0.8 --level 0.95``.

    Options end at the next one; of names, the last is FILE where nothing else is.
    """

    several: ClassVar = {"--level": True, "--season": True, "--target": False, "--inputs": False}  # whether words are numbers

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Click takes the words one by one."""
        return super().parse_args(ctx, self.spread(args))

    @classmethod
    def spread(cls, args: list[str]) -> list[str]:
        """The arguments with a flag before each word.

        >>> Several.spread(["--level", "0.8", "0.95", "a.csv"]), Several.spread(["--target", "x", "y", "a.csv"])
        (['--level', '0.8', '--level', '0.95', 'a.csv'], ['--target', 'x', '--target', 'y', 'a.csv'])
        """
        words, free, groups = list(args), [], []
        out: list[tuple[str, ...]] = []
        while words:
            word = words.pop(0)
            if word == "--":
                free += words
                out += [("--",), *((one,) for one in words)]
                break
            if word in cls.several:
                group = [words.pop(0)] if words else []
                while words and not words[0].startswith("--") and (_is_number(words[0]) if cls.several[word] else True):
                    group.append(words.pop(0))
                out += [(word, one) for one in group] or [(word,)]
                if not cls.several[word] and len(group) > 1:
                    groups.append((word, group[-1]))
            elif word.startswith("--") and "=" not in word and word != "--help" and words:
                out.append((word, words.pop(0)))
            else:
                out.append((word,))
                free += [word] * (not word.startswith("-"))
        if groups and not free:
            looks = [one for one in groups if Path(one[1]).suffix.lower() in (".csv", ".tsv", ".txt", ".parquet", ".pq")]
            chosen = (looks or groups)[-1]
            place = len(out) - 1 - out[::-1].index(chosen)
            out[place] = (chosen[1],)
        return [word for part in out for word in part]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
