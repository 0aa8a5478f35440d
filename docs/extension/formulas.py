"""Formulas of the headers of schemes, `p * base ** (-2 m / d)`, as LaTeX and MathML."""

import re
from collections.abc import Iterator

from docutils import nodes
from latex2mathml.converter import convert

TOKEN = re.compile(r"\*\*|\.\.\.|[A-Za-z]+(?:_[A-Za-z]+)*|\d+|\s|.")
AROUND = re.compile(r"\s*(\*\*|\.\.\.|[-+*/=~<,])\s*")  # signs, with their own space
CLOSING = {"(": ")", "[": "]", "{": "}"}
SIGNS = {
    "*": r"\cdot ",
    "...": r"\dots ",
    "~": r"\sim ",
    "'": r"^{\top}",
}
SUM = r"\sum "  # over what stands below; `sum of` is a word
FUNCTIONS = {"cos", "log", "max", "sin"}
GREEK = {"beta", "epsilon", "gamma", "pi", "zeta"}


def with_mathematics(text: str) -> str:
    """Return Markdown in which what stands between backticks is a formula."""
    return re.sub("`([^`]+)`", lambda found: f"{{math}}`{latex(found[1])}`", text)


def latex(formula: str) -> str:
    """Return a formula of a header as LaTeX.

    Args:
        formula: in Python's notation, with `a_b` and `a_(b)` for subscripts, a space
            between factors, and a stroke for a transpose.
    """
    return _upto("", iter(TOKEN.findall(AROUND.sub(r"\1", formula))))


def _upto(end: str, tokens: Iterator[str]) -> str:
    """Return the LaTeX of the tokens before an end, which is taken too."""
    parts: list[str] = []
    for token in tokens:
        if token == end:
            break
        parts.append(_part(token, tokens))
    return "".join(parts).strip()


def _part(token: str, tokens: Iterator[str]) -> str:
    """Return the LaTeX of a token, with what belongs to it."""
    if token in ("**", "_"):
        return ("^" if token == "**" else "_") + f"{{{_argument(tokens)}}}"
    if token == "sqrt":
        return rf"\sqrt{{{_argument(tokens)}}}"
    if token in CLOSING:
        inside = _upto(CLOSING[token], tokens)
        return f"{token}{inside}{CLOSING[token]}"
    if token.isspace():
        return r"\,"
    return SIGNS.get(token) or _name(token)


def _argument(tokens: Iterator[str]) -> str:
    """Return the LaTeX of the next token; brackets around it are left out."""
    token = next(tokens)
    return _upto(CLOSING[token], tokens) if token in CLOSING else _part(token, tokens)


def _name(token: str) -> str:
    """Return a letter, a word or a number, with the subscript that it ends in."""
    word, _, below = token.rpartition("_")
    if word and len(below) <= 2:
        return f"{SUM if word == 'sum' else _name(word)}_{{{below}}}"
    if token in FUNCTIONS | GREEK:
        return rf"\{token} "
    if len(token) > 1 and token[0].isalpha():
        return rf"\mathrm{{{token}}}".replace("_", r"\_")
    return token


def visit_inline(translator: nodes.NodeVisitor, node: nodes.Element) -> None:
    """Write a formula within a line."""
    _write(translator, node, "inline")


def visit_block(translator: nodes.NodeVisitor, node: nodes.Element) -> None:
    """Write a formula on a line of its own."""
    _write(translator, node, "block")


def _write(translator: nodes.NodeVisitor, node: nodes.Element, display: str) -> None:
    translator.body.append(convert(node.astext(), display=display))  # type: ignore[attr-defined]
    raise nodes.SkipNode
