"""The page of a report: templates, style, script, and what it may load.

A page loads nothing. Its policy allows the one style and the one script that stand in
it, by their hashes, and images that are part of it. Templates escape every text.
"""

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from posenc_compare import __version__
from posenc_compare.analysis.core.sanitize import clean

PACKAGE, FOLDER = "posenc_compare.analysis.show", "web"


def render(title: str, **parts: object) -> str:
    """Return the page of a report.

    Args:
        title: of the page.
        **parts: that the template shows.
    """
    style, script = _asset("style.css"), _asset("script.js")
    environment = Environment(
        loader=PackageLoader(PACKAGE, FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        title=clean(title),
        version=__version__,
        style=style,
        script=script,
        policy=policy(style, script),
        **parts,
    )


def policy(style: str, script: str) -> str:
    """Return what a page with this style and this script may do: nothing more."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files(PACKAGE).joinpath(FOLDER, name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
