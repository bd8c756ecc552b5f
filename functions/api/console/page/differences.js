/** The most pairs that are compared. What is longer counts as replaced as a whole. */
const MAX_PAIRS = 1000000;

/** What two lists have in common and what only one of them has, in order: `[{kind: "same" | "gone" | "new", one, other}]`
 *  with the longest common part. `keyOf(item)`: items with the same key are the same. */
export function differencesOf(one, other, keyOf = (item) => item) {
  const a = one.map(keyOf), b = other.map(keyOf);
  let from = 0, end = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from += 1;
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const found = [];
  const same = (i, j) => found.push({ kind: "same", one: one[i], other: other[j] });
  const gone = (i) => found.push({ kind: "gone", one: one[i] });
  const added = (j) => found.push({ kind: "new", other: other[j] });
  const lastA = a.length - end, lastB = b.length - end;
  for (let n = 0; n < from; n += 1) same(n, n);
  let i = from, j = from;
  if ((lastA - from) * (lastB - from) <= MAX_PAIRS) {
    const width = lastB - from + 1, common = new Uint16Array((lastA - from + 1) * width);
    for (let x = lastA - from - 1; x >= 0; x -= 1) {
      for (let y = lastB - from - 1; y >= 0; y -= 1) {
        common[x * width + y] = a[from + x] === b[from + y] ? common[(x + 1) * width + y + 1] + 1
          : Math.max(common[(x + 1) * width + y], common[x * width + y + 1]);
      }
    }
    while (i < lastA && j < lastB) {
      if (a[i] === b[j]) { same(i, j); i += 1; j += 1; }
      else if (common[(i + 1 - from) * width + j - from] >= common[(i - from) * width + j + 1 - from]) { gone(i); i += 1; }
      else { added(j); j += 1; }
    }
  }
  for (; i < lastA; i += 1) gone(i);
  for (; j < lastB; j += 1) added(j);
  for (let n = end; n > 0; n -= 1) same(a.length - n, b.length - n);
  return found;
}

/** Words, each with the blanks behind it. */
const wordsOf = (text) => text.match(/^\s+|\S+\s*/g) || [];

/** Two texts in pieces, `{one, other}`: each a list of `{text, differs}`. Words are compared. */
export function piecesOf(one, other) {
  const found = differencesOf(wordsOf(one), wordsOf(other), (word) => word.trim());
  const pieces = (kind, side) => {
    const list = [];
    for (const each of found) {
      if (each.kind !== "same" && each.kind !== kind) continue;
      const differs = each.kind !== "same", last = list.at(-1);
      if (last && last.differs === differs) last.text += each[side];
      else list.push({ text: each[side], differs });
    }
    return list;
  };
  return { one: pieces("gone", "one"), other: pieces("new", "other") };
}
