"""A page as a browser reads it, and what no page may have."""

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser

POLICY = (
    "default-src 'none'; img-src data:; style-src 'sha256-{}'; "
    "script-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
)
# All attributes that a page may have; of these, what an address may be.
ATTRIBUTES = set(
    "alt aria-label aria-labelledby charset class content data-value href http-equiv "
    "id lang name role scope src tabindex width".split()
)
ADDRESSES = {"href": "#[a-z0-9-]+", "src": "data:image/png;base64,[A-Za-z0-9+/=]+"}


class Page(HTMLParser):
    """What a browser sees: elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = self.words = ""
        self.source = text
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data
        self.words += f" {' '.join(data.split())}" if data.strip() else ""

    def check(self) -> None:
        """Fail on what a page must not have."""
        assert all(char.isprintable() or char == "\n" for char in self.text)
        assert self.elements["script"] == self.elements["style"] == 1
        assert self.elements["meta"] == 4  # charset, policy, viewport and generator
        hashes = []
        for tag in ("style", "script"):
            (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", self.source, re.DOTALL)
            digest = hashlib.sha256(inside.encode()).digest()
            hashes.append(base64.b64encode(digest).decode())
        assert ("content", POLICY.format(*hashes)) in self.attributes
        for name, value in self.attributes:
            assert name in ATTRIBUTES
            known = ADDRESSES.get(name, ".*")
            assert re.fullmatch(known, value, re.DOTALL), value
        ids = [value for name, value in self.attributes if name == "id"]
        assert len(ids) == len({*ids})
        anchors = {v[1:] for n, v in self.attributes if n == "href" and v[0] == "#"}
        assert anchors <= {*ids}
