// Formats numbers, times and sizes for display, without markup.

const NONE = "–";

/** Short but exact enough: five digits, whole numbers unrounded, exponents for very large and small numbers. */
export function number(value: number | null | undefined, digits = 5): string {
  if (value === null || value === undefined) return NONE;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "-Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return count(value);
  if (size >= 1e6 || size < 1e-4) return exponent(value, digits);
  return trimmed(value.toPrecision(digits));
}

function exponent(value: number, digits: number): string {
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  return `${trimmed(mantissa)}e${power.replace("+", "")}`;
}

function trimmed(text: string): string {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** "1 change", "2,000 changes". */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 1e-6) return `${rounded(seconds * 1e9)} ns`;
  if (seconds < 1e-3) return `${rounded(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${rounded(seconds * 1e3)} ms`;
  if (seconds < 59.95) return `${rounded(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return parts(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 24 * 60) return parts(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(seconds / 3600);
  return parts(Math.floor(hours / 24), "d", hours % 24, "h");
}

function rounded(value: number): string {
  return value >= 99.95 ? String(Math.round(value)) : trimmed(value.toPrecision(3));
}

function parts(first: number, one: string, second: number, two: string): string {
  return second === 0 ? `${first} ${one}` : `${first} ${one} ${second} ${two}`;
}

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${size} B` : `${rounded(size)} ${units[unit]}`;
}

/** "2026-11-16 14:28:05", in the reader's time zone. */
export function when(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return NONE;
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** "3 min ago"; `now` in seconds since 1970. */
export function ago(seconds: number | null | undefined, now = Date.now() / 1000): string {
  if (seconds === null || seconds === undefined) return NONE;
  const passed = now - seconds;
  if (passed < 10) return "just now";
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  const days = Math.floor(passed / 86400);
  return days < 60 ? `${days} d ago` : when(seconds).slice(0, 10);
}

/** "(64, 10)", "(5,)", "()", as in Python. */
export function shape(dims: number[]): string {
  return dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(", ")})`;
}

/** The last parts of a path: "…/project/train.py". */
export function shortPath(path: string, keep = 2): string {
  const all = path.split("/").filter(Boolean);
  return all.length <= keep ? path : `…/${all.slice(-keep).join("/")}`;
}

export function place(at: { file: string; line: number }): string {
  return `${shortPath(at.file)}:${at.line}`;
}
