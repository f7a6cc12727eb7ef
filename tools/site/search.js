"use strict";
// Finds sections by words. INDEX, which the page loads before, is a list of [address, page, section, text].

// What changed and why comes behind how things are done.
const LESS = /^(changelog|decisions\/|lessons)/;

// A word that is looked for begins one of the section, of its title or of its page's; titles count for more, rare words too.
function found(index, asked, most) {
  const words = asked.toLowerCase().match(/[\p{L}\p{N}._-]+/gu) || [];
  if (words.length === 0) return [];
  const patterns = words.map((word) => new RegExp("(?<![\\p{L}\\p{N}])" + word.replace(/[.\-]/g, "\\$&"), "giu"));
  const rare = patterns.map((one) => {
    const having = index.filter((section) => new RegExp(one.source, "iu").test(section.slice(1).join(" "))).length;
    return Math.log(1 + index.length / (1 + having));
  });
  const rated = [];
  for (const section of index) {
    const [address, page, name, text] = section;
    const title = name.replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2"); // PenstockUnderReplicated
    let points = 0, has = 0;
    patterns.forEach((one, at) => {
      const inText = Math.min((text.match(one) || []).length, 5);
      const inTitle = (title.match(one) || []).length, inPage = (page.match(one) || []).length;
      if (inText + inTitle + inPage > 0) has += rare[at];
      points += rare[at] * (inText / (1 + text.length / 2000) + (inTitle ? 6 : 0) + (inPage ? 4 : 0));
    });
    const all = rare.reduce((sum, one) => sum + one, 0);
    if (has >= all * 0.6) rated.push([points * (has / all) ** 4 * (LESS.test(address) ? 0.4 : 1), section]);
  }
  return rated.sort((a, b) => b[0] - a[0]).slice(0, most).map((one) => one[1]);
}

function shown() {
  const asked = new URLSearchParams(location.search).get("q") || "";
  for (const field of document.querySelectorAll("input[name=q]")) field.value = asked;
  const list = document.getElementById("found");
  const sections = found(INDEX, asked, 20);
  document.getElementById("how-many").textContent = asked && `${sections.length || "No"} sections for “${asked}”`;
  for (const [address, page, title, text] of sections) {
    const item = document.createElement("li"), link = document.createElement("a"), part = document.createElement("p");
    link.href = address;
    link.textContent = page === title ? title : `${page}: ${title}`;
    part.textContent = text.slice(0, 200);
    item.append(link, part);
    list.append(item);
  }
}

if (typeof document === "undefined") module.exports = { found };
else shown();
