"""SVG files made part of an HTML page: ids, links and styles reach no other figure, and nothing in them can run or call out.

>>> drawn = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2"><path id="p" d="M0 0"/><script>alert(1)</script></svg>'
>>> print(inlined(drawn, prefix="fig1", label="fig1-caption"))
<svg viewBox="0 0 4 2" id="fig1" role="img" aria-labelledby="fig1-caption"><path id="fig1-p" d="M0 0" /></svg>
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from markupsafe import Markup

__all__ = ["inlined"]

# What pictures are made of. All else goes: metadata, scripts, foreign objects, links, animations.
_SHAPES = ("g", "use", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "image")
_PAINTS = ("clipPath", "mask", "pattern", "marker", "linearGradient", "radialGradient", "stop")
_DRAWN = frozenset(("svg", "defs", "symbol", "style", *_SHAPES, *_PAINTS))
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_LOCAL = re.compile(r"""url\(\s*["']?#([^)"']+)["']?\s*\)""")
_ELSEWHERE = re.compile(r"""url\(\s*["']?(?!["']?#)|@import|expression\(|\\""", re.IGNORECASE)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_LENGTH = re.compile(r"\s*([0-9.]+)\s*(px|pt|in|)\s*")
_PIXELS = {"": 1.0, "px": 1.0, "pt": 96.0 / 72.0, "in": 96.0}


def inlined(text: str, prefix: str, label: str) -> Markup:
    """``text`` of an SVG file as an element of an HTML page, which the element with the id ``label`` describes.

    Every id gets ``prefix``, as does what refers to it. The figure takes the width it is given, up to its own.
    """
    root = ElementTree.fromstring(text)
    if root.tag not in ("svg", f"{_SVG}svg"):
        raise ValueError(f"an SVG file must begin with svg, got {root.tag}")
    _clean(root, prefix)
    width, height = (_pixels(root.attrib.pop(side, "")) for side in ("width", "height"))
    if width and height:
        root.attrib.setdefault("viewBox", f"0 0 {width:g} {height:g}")
        root.set("style", f"max-width: {width:g}px")
    root.attrib |= {"id": prefix, "role": "img", "aria-labelledby": label}
    root.tail = None
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # made of elements, so escaped


def _clean(element: ElementTree.Element, prefix: str) -> None:
    """Namespaces, ids, links and styles of an element and all inside it, made right in place."""
    element.tag = _name(element)
    attributes = {key.removeprefix(_XLINK): value for key, value in element.attrib.items()}
    element.attrib.clear()
    for key, value in attributes.items():
        if key.startswith(("{", "on")) or _ELSEWHERE.search(value):
            continue
        if key == "id":
            value = f"{prefix}-{value}"
        elif key == "href":
            if value.startswith("#"):
                value = f"#{prefix}-{value[1:]}"
            elif not value.startswith("data:image/"):
                continue
        element.set(key, _LOCAL.sub(rf"url(#{prefix}-\1)", value))
    if element.tag == "style":
        element.text = _scoped(element.text or "", prefix)
    for child in list(element):
        if _name(child) in _DRAWN:
            _clean(child, prefix)
        else:
            element.remove(child)


def _name(element: ElementTree.Element) -> str:
    """The element's name without SVG's namespace; comments and processing instructions have none."""
    return element.tag.removeprefix(_SVG) if isinstance(element.tag, str) else ""


def _scoped(css: str, prefix: str) -> str:
    """Rules that hold inside the figure alone: matplotlib writes ``*{…}``, which would style the whole page."""
    rules = []
    for selectors, body in _RULE.findall(re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)):
        if "@" in selectors or _ELSEWHERE.search(body):
            continue
        scoped = ", ".join(f"#{prefix} {selector.strip().replace('#', f'#{prefix}-')}" for selector in selectors.split(","))
        rules.append(scoped + " {" + _LOCAL.sub(rf"url(#{prefix}-\1)", body) + "}")
    return "\n".join(rules)


def _pixels(length: str) -> float:
    """A length in CSS pixels; 0 where it is none."""
    match = _LENGTH.fullmatch(length)
    return float(match[1]) * _PIXELS[match[2]] if match else 0.0
