"""The training report: well-formed, alone in the world, and every text escaped."""

import html.parser
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

VOID = {"meta", "br"}
TEXT = "<script>alert('x')</script>&\"\ufffd\ufffd\ufffd ]]> é"  # report_sample's hostile one, as it must be shown


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        assert tag not in VOID, f"<{tag}> is not closed"
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, text):
        if self.open and self.open[-1] != "style":
            self.texts.append(text)


def render(which):
    page = subprocess.run([os.environ["REPORT_SAMPLE"], which], capture_output=True, check=True).stdout
    return page.decode("utf-8")


class Report(unittest.TestCase):
    def setUp(self):
        self.sources = {which: render(which) for which in ("full", "small", "empty", "hostile")}
        self.pages = {which: Page(source) for which, source in self.sources.items()}

    def test_is_well_formed(self):
        for which, source in self.sources.items():
            self.assertTrue(source.startswith("<!DOCTYPE html>\n<html lang=\"en\">"), which)
            ElementTree.fromstring(source)  # raises where it is not XML
            self.assertEqual(source, render(which))
            self.assertIsNone(re.search(r"\b(nan|inf)\b", re.sub("<style>.*</style>", "", source, flags=re.S)), which)

    def test_stands_alone(self):
        for which, page in self.pages.items():
            source = self.sources[which]
            self.assertIsNone(re.search(r"https?:|//|url\(|@import", source), which)
            self.assertFalse({"script", "link", "img", "iframe", "object", "use", "a"} & set(page.tags), which)
            self.assertFalse([name for name, _ in page.attributes if name.startswith("on") or "href" in name
                              or name in ("src", "style")], which)
            self.assertIn("prefers-color-scheme: dark", source)
            self.assertIn("width=device-width", source)

    def test_escapes_every_text(self):
        page = self.pages["hostile"]
        self.assertNotIn("script", page.tags)
        shown = "".join(page.texts)
        # title twice, device, digest; 10 curves in the legend; 3 models in table and 3 among figures, 1 that can be
        # compared with the first; 2 findings; 2 confusions that are any; 2 notes, what was misread, a fact and its
        # name; 1 histogram; and at the points of 9 curves, 3 losses and 1 accuracy each, the finite ones.
        self.assertEqual(shown.count(TEXT), 4 + 10 + 7 + 2 + 2 + 5 + 1 + 9 * 4)
        self.assertEqual(shown.count("script"), 2 * shown.count(TEXT))

    def test_shows_what_was_recorded(self):
        page = self.pages["full"]
        shown = " ".join(page.texts)
        for text in ("Handwritten digits", "with transformer", "98.89 %", "163.51 KiB", "12.4 µs", "−0.28", "0.26×",
                     "97.12 to 99.58 %", "+2 −3", "s4 does not.", "9 read as 5: 7, 8 read as 1: 2", "2 of 360 images are misread",
                     "s8: the same", "planck demo --epochs 30", "a CPU, cores: 2, avx2",
                     "classifier.weight", "9f578524b6cec1fc800cc52dfc87ebe56264983d490aa72a4bd928ba2570ec77"):
            self.assertIn(text, shown)
        self.assertEqual(page.tags.count("figure"), 12)
        self.assertEqual(shown.count("✗"), 2)
        self.assertEqual(shown.count("✓"), 10)
        # 2 charts, 3 bars, 3 + 2 legends, 2 confusions, 24 images, 3 histograms
        self.assertEqual(page.tags.count("svg"), 2 + 3 + 5 + 2 + 24 + 3)
        self.assertEqual(page.tags.count("section"), 7)

    def test_draws_confusions(self):
        """Every cell is there; the darker, the more often; right answers are no mistakes."""
        full, two = re.findall(r'<svg class="confusion".*?</svg>', self.sources["full"], re.S)
        self.assertEqual((full.count("<rect"), two.count("<rect")), (100, 4))
        self.assertEqual(re.findall(r'class="(k[1-5])"[^>]*><title>([^<]*)', full),
                         [("k2", "8 read as 1: 2"), ("k5", "9 read as 5: 7")])
        self.assertEqual(re.findall(r'class="(\w+)"[^>]*><title>([^<]*)', two),
                         [("d", "0 read as 0: 17"), ("k5", "0 read as 1: 3"), ("k2", "1 read as 0: 1"),
                          ("d", "1 read as 1: 19")])

    def test_draws_intervals(self):
        bars = re.findall(r'<svg class="bar".*?</svg>', self.sources["full"])
        for bar in bars:
            low, high = map(float, re.search(r'class="error" d="M([\d.]+) .*?H([\d.]+)', bar).groups())
            end = float(re.search(r'class="t0" width="([\d.]+)"', bar).group(1))
            self.assertTrue(0 <= low < end < high <= 100, bar)

    def test_leaves_empty_parts_out(self):
        page = self.pages["empty"]
        self.assertEqual(page.tags.count("section"), 0)
        self.assertEqual(page.tags.count("svg"), 0)
        self.assertEqual([text for text in page.texts if text.strip()], ["Training", "Training", "Nothing was recorded."])
        small = self.pages["small"]
        self.assertEqual(small.tags.count("section"), 7)
        self.assertNotIn("footer", small.tags)

    def test_draws_inside_of_the_charts(self):
        for which in ("full", "small"):
            for chart in re.findall(r'<svg viewBox="0 0 440 236".*?</svg>', self.sources[which], re.S):
                for path in re.findall(r'class="curve[^>]* d="([^"]*)"', chart):
                    for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path):
                        self.assertTrue(46 <= float(x) <= 378 and 12 <= float(y) <= 206, (which, x, y))


if __name__ == "__main__":
    unittest.main()
