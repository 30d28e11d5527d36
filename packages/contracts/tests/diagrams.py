"""Diagrams that must be drawn: every sort of name that could break Mermaid.

`python diagrams.py` has a real browser draw them with the npm package `mermaid`, compares what
stands in the picture with the names, and writes the stamp `diagrams.json`: the version of the
generator and a digest of the diagrams. The fast tests fail when the stamp is not of the present
diagrams. `--check` draws them and leaves the stamp alone.

It needs npm and chromium, and fails without them.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iworkflow.contracts.diagram import GENERATOR_VERSION, diagram_of, visible

MERMAID = "12.3.0"
STAMP = Path(__file__).with_name("diagrams.json")

NAMES = [
    "plain", "two words", "snake_case", "_private", "__dunder__", "a_", "9_9", "1", "1.5", "-",
    "state", "State", "end", "note", "as", "direction", "class", "classDef", "default", "style",
    "stateDiagram-v2", "fork", "join", "choice", "hide empty description", "scale", "click",
    "<<fork>>", "<<choice>>", "[*]", "--", "-->", "s0", "s1 --> s2", "%% remark", "%%{init}%%",
    'say "hi"', "it's", "`code`", "*b* _i_", "**bold**", "1. item", "- item", "# head", "+ plus",
    "a;b", "a:b", "a::b", ":::cls", "{x}", "}", "[x]", "(x)", "|", "\\", "\\n", "/", "~", "^",
    "$$x$$", "#35;", "&quot;", "&amp;", "a & b",
    "<b>bold</b>", "<br/>", "<script>alert(1)</script>",
    "line\nbreak", "tab\there", "carriage\rreturn", " leading", "trailing ", "a  b", "a - b",
    "привет мир", "状态", "حالة", "🎉 x", "e\u0301", "Ⅷ²", "\ufb01", "a\u00a0b", "a\u2028b",
    "a\u200bb", "\u202eabc", "ß", "İ", "x" * 300, "ä" * 120, "wörter " * 30 + "ende",
]  # fmt: skip


def manifest(states: Mapping[str, Sequence[str]], outcomes: Sequence[str]) -> dict[str, Any]:
    """As much of a manifest as a diagram is drawn from."""
    return {
        "start": next(iter(states), None),
        "states": {name: {"next": list(after)} for name, after in states.items()},
        "outcomes": {key: {} for key in outcomes},
    }


def corpus() -> list[dict[str, Any]]:
    """All names as a chain of states, as outcomes, and some small graphs."""
    chain = {name: [after] for name, after in zip(NAMES, [*NAMES[1:], "done"], strict=True)}
    loop = {"a": ["a", "b", "done"], "b": ["a", "failed"]}
    return [
        manifest(chain, ["done"]),
        manifest({"start": NAMES[:9]}, NAMES[:9]),
        manifest(loop, ["done", "failed"]),
        manifest({}, ["created", "refused"]),
    ]


def digest() -> str:
    """Tell the diagrams of the corpus from any others."""
    texts = [diagram_of(one) for one in corpus()]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def stamp() -> dict[str, Any]:
    """What the stamp says once the present diagrams have been drawn."""
    return {"generator": GENERATOR_VERSION, "mermaid": MERMAID, "diagrams": digest()}


_PAGE = """<!doctype html><meta charset="utf-8"><pre id="out"></pre>
<script src="{script}"></script><script>
(async () => {{
  const found = [];
  mermaid.initialize({{startOnLoad: false}});
  for (const text of {texts}) {{
    try {{
      const drawn = await mermaid.render("d" + found.length, text);
      const box = document.createElement("div");
      box.innerHTML = drawn.svg;
      document.body.appendChild(box);
      found.push({{
        labels: [...box.querySelectorAll("g.node")].map((node) => node.textContent),
        edges: box.querySelectorAll("path.transition").length,
      }});
    }} catch (error) {{ found.push({{error: String(error)}}); }}
  }}
  const bytes = new TextEncoder().encode(JSON.stringify(found));
  const text = btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));
  document.getElementById("out").textContent = "DRAWN" + text + "END";
}})();
</script>"""


def draw(texts: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Have the browser draw diagrams; give the labels and the number of arrows of each."""
    tools = {name: shutil.which(name) for name in ("npm", "chromium")}
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        raise SystemExit(f"diagrams: {' and '.join(missing)} must be installed")
    npm = [str(tools["npm"]), "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run([*npm, f"mermaid@{MERMAID}"], cwd=folder, check=True)
    script = folder / "node_modules/mermaid/dist/mermaid.min.js"
    page = folder / "page.html"
    listed = json.dumps(list(texts)).replace("</", "<\\/")
    page.write_text(_PAGE.format(script=script.as_uri(), texts=listed), "utf-8")
    browser = [str(tools["chromium"]), "--headless", "--no-sandbox", "--disable-gpu"]
    ran = subprocess.run(
        [*browser, "--virtual-time-budget=120000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.search(r"DRAWN([A-Za-z0-9+/=]*)END</pre>", ran.stdout)
    if found is None:
        raise SystemExit(f"diagrams: the browser drew nothing\n{ran.stderr[-2000:]}")
    drawn: list[dict[str, Any]] = json.loads(base64.b64decode(html.unescape(found[1])))
    return drawn


def faults(manifests: Sequence[dict[str, Any]], drawn: Sequence[dict[str, Any]]) -> list[str]:
    """Say how pictures differ from what they should show."""
    found: list[str] = []
    for number, (one, picture) in enumerate(zip(manifests, drawn, strict=True)):
        if "error" in picture:
            found.append(f"diagram {number}: {picture['error']}")
            continue
        names = [visible(name) for name in (*one["states"], *one["outcomes"])]
        labels = [label.strip("\n") for label in picture["labels"] if label]
        missing = [name for name in names if name not in labels]
        found += [f"diagram {number}: {name!r} is not drawn" for name in missing]
        starts = 1 if one["states"] else len(one["outcomes"])
        arrows = starts + sum(len(state["next"]) for state in one["states"].values())
        arrows += len(one["outcomes"])
        if picture["edges"] != arrows:
            found.append(f"diagram {number}: {picture['edges']} arrows are drawn, not {arrows}")
        if len(labels) != len(names):
            found.append(f"diagram {number}: {len(labels)} labels are drawn, not {len(names)}")
    return found


def main() -> int:
    """Draw, compare, write the stamp."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="leave the stamp alone")
    options = parser.parse_args()
    manifests = corpus()
    with tempfile.TemporaryDirectory(prefix="iworkflow-diagrams-") as folder:
        drawn = draw([diagram_of(one) for one in manifests], Path(folder))
    wrong = faults(manifests, drawn)
    for fault in wrong:
        print(fault, file=sys.stderr)
    if wrong:
        return 1
    if not options.check:
        STAMP.write_text(json.dumps(stamp(), indent=2) + "\n")
    print(f"{len(drawn)} diagrams with {len(NAMES)} names are drawn as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
