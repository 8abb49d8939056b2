"""Run Chromium on a page: print the document after its scripts, or take a picture."""

import re
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
NO_CHROMIUM = "no chromium to look at pages with"
DARK = "--blink-settings=preferredColorScheme=0"
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

APPEARANCE = """
<script>
addEventListener("load", () => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((text) => {
      const share = Number(text) / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const contrast = (colour) => {
    const other = light(colour);
    return (Math.max(other, paper) + 0.05) / (Math.min(other, paper) + 0.05);
  };
  // Names of buffers are on their rectangles.
  const texts = [...document.querySelectorAll("svg text:not(.memory .name)")];
  const words = [...document.querySelectorAll("h1, h2, h3, p, td, th, pre, .label, .note, a")];
  document.body.dataset.texts = texts.length;
  document.body.dataset.contrast = Math.min(
    ...texts.map((text) => contrast(getComputedStyle(text).fill)),
    ...words.map((word) => contrast(getComputedStyle(word).color)),
  );
  document.body.dataset.paper = getComputedStyle(document.body).backgroundColor;
  const boxes = [...document.querySelectorAll(".scroll")];
  document.body.dataset.hidden = boxes.some((box) => getComputedStyle(box).overflow != "visible");
  document.body.dataset.overflow = document.documentElement.scrollWidth - innerWidth;
  const overlaps = [];
  // Plotly places its labels.
  document.querySelectorAll("svg:not(.main-svg)").forEach((svg) => {
    const labels = [...svg.querySelectorAll("text")].filter((text) => text.textContent);
    const boxes = labels.map((text) => text.getBoundingClientRect());
    boxes.forEach((a, i) => boxes.slice(0, i).forEach((b, j) => {
      const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 2 ||
        b.bottom <= a.top + 2;
      if (!apart) overlaps.push(`${labels[i].textContent} on ${labels[j].textContent}`);
    }));
  });
  document.body.dataset.overlaps = overlaps.slice(0, 5).join("; ");
});
</script>
"""
"""
Find the lowest contrast of text with the page, whether a table or the page is cut, and labels of
pictures that overlap.
"""


def chromium(work: Path, page: Path, *options: str) -> str:
    """Return the output of the browser; `work` has the profile."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *QUIET, f"--user-data-dir={work / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def probed(
    work: Path, page: Path, width: int, probe: str, *options: str, as_print: bool = False
) -> dict[str, str]:
    """Return the findings of a script in the page, optionally with the style for print."""
    copy = work / "probed.html"
    text = page.read_text(encoding="utf-8")
    head, _, tail = text.rpartition("</body>")
    text = f"{head}{probe}</body>{tail}"
    copy.write_text(text.replace("@media print", "@media screen") if as_print else text, "utf-8")
    text = chromium(work, copy, f"--window-size={width},900", "--dump-dom", *options)
    *_, found = re.finditer(r"<body([^>]*)>", text)
    return dict(re.findall(r'data-(\w+)="([^"]*)"', found[1]))
