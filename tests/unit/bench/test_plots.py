"""The plot of figures over growing numbers."""

from xml.etree import ElementTree as ET

from bench.plots import curves


def test_lines_rise_to_the_right_on_logarithmic_axes() -> None:
    text = curves("a < b", {"memory & more": [(1_000, 60.0), (10_000, 90.0), (100_000, 400.0)], "flat": [(1_000, 2.0)]})
    root = ET.fromstring(text)
    line = next(element for element in root.iter() if element.tag.endswith("polyline"))
    spots = [tuple(map(float, spot.split(","))) for spot in line.attrib["points"].split()]
    across, down = [x for x, _ in spots], [y for _, y in spots]
    assert across == sorted(across)
    assert down == sorted(down, reverse=True)
    assert abs((across[1] - across[0]) - (across[2] - across[1])) < 0.2, "ten times as many is one step"
