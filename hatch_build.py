"""Metadata with the address of the repository, which pyproject.toml states once: links of the project and of the README."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"(!\[[^\]]*\]\()(?!https?://)")
_LINK = re.compile(r"((?<!`)\[[^\]!]*\]\()(?!https?://)")


class CustomMetadataHook(MetadataHookInterface):
    """Fill in ``readme``, with absolute links for an index of packages, and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dynamic fields."""
        home = self.config["repository"]
        raw = home.replace("https://github.com/", "https://raw.githubusercontent.com/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = _LINK.sub(rf"\1{home}/blob/main/", _IMAGE.sub(rf"\1{raw}/main/", text))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {
            "Repository": home,
            "Documentation": f"{home}/blob/main/docs/index.md",
            "Changelog": f"{home}/blob/main/CHANGELOG.md",
            "Issues": f"{home}/issues",
            "Paper": "https://arxiv.org/abs/1806.09431",
        }
