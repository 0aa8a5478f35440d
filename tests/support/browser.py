"""Chromium without a window, spoken to through two pipes."""

import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
    "--disable-extensions --disable-component-update --no-first-run "
    "--disable-background-networking --hide-scrollbars --remote-debugging-pipe"
).split()
PATIENCE = 60.0  # seconds until Chromium is given up


def found() -> str | None:
    """Return the path of Chromium; None where it is missing."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab. `events` has all that Chromium told since the last page."""

    def __init__(self, out: int, back: int) -> None:
        self.out, self.back = out, back
        self.rest = b""
        self.numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command of the DevTools protocol."""
        number = next(self.numbers)
        message: dict[str, Any] = {
            "id": number,
            "method": method,
            "params": parameters,
        }
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (told := self._hear()).get("id") != number:
            self.events.append(told)
        assert "error" not in told, told["error"]
        return told["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            assert select([self.back], [], [], PATIENCE)[0], "Chromium is silent"
            part = os.read(self.back, 1 << 16)
            assert part, "Chromium ended"
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Show a file in a window of so many pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("Page.loadEventFired")

    def wait(self, event: str) -> None:
        """Wait until Chromium has told of an event."""
        while not any(told.get("method") == event for told in self.events):
            self.events.append(self._hear())

    def value(self, script: str) -> Any:
        """Return what a script of one expression gives on the page."""
        answer = self.call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Click what a selector finds first, with the mouse, in its middle."""
        box = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', inline: 'center'}); "
            "const b = e.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        at = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **at)

    def press(self, key: str, code: int) -> None:
        """Press a key, with its number in Windows."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **text,
            )

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the page was opened."""
        self.value("0")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Return what Chromium wrote to its log and what scripts failed with."""
        self.value("0")
        return [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")
        ]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Yield a tab of a Chromium that ends with the block.

    Args:
        profile: folder for what Chromium keeps.
    """
    program = found()
    assert program is not None
    to_them, from_us = os.pipe()
    to_us, from_them = os.pipe()
    # Chromium reads file 3 and writes file 4; a shell puts them there.
    line = f'exec "$0" "$@" 3<&{to_them} 4>&{from_them}'
    command = ["bash", "-c", line, program, *OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command,
        pass_fds=(to_them, from_them),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_them)
    os.close(from_them)
    try:
        yield Browser(from_us, to_us)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(from_us)
        os.close(to_us)
