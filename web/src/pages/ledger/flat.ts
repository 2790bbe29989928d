/** Nested metadata as rows: ["environment.packages.numpy", "2.1.0"]. Lists of plain values stay in one row. */
export function flat(value: unknown, path = ""): [string, string][] {
  if (Array.isArray(value)) {
    if (value.every(isPlain)) return [[path, value.map(plain).join(" ")]];
    return value.flatMap((each, i) => flat(each, `${path}[${i}]`));
  }
  if (isPlain(value)) return [[path, plain(value)]];
  const entries = Object.entries(value as Record<string, unknown>);
  if (entries.length === 0) return path ? [[path, "{}"]] : [];
  return entries.flatMap(([key, each]) => flat(each, path ? `${path}.${key}` : key));
}

function isPlain(value: unknown): boolean {
  return value === null || typeof value !== "object";
}

function plain(value: unknown): string {
  return value === null ? "none" : String(value);
}
