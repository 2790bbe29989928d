// Maps numbers to colours: two scales that are readable in light and dark and for colour-blind readers.

export type Rgb = [number, number, number];
export type ScaleName = "plain" | "signed";

const STOPS: Record<ScaleName, Rgb[]> = {
  // from dark to light, so that it also works in grey
  plain: [
    [22, 26, 64],
    [36, 76, 122],
    [32, 124, 138],
    [66, 168, 122],
    [160, 206, 92],
    [250, 232, 128],
  ],
  // cold below zero, warm above
  signed: [
    [24, 66, 130],
    [92, 150, 204],
    [240, 241, 238],
    [222, 138, 92],
    [142, 36, 28],
  ],
};

export const MISSING: Rgb = [204, 60, 190]; // for NaN: a colour of neither scale

/** The scale's colour at 0 … 1. */
export function colourAt(scale: ScaleName, part: number): Rgb {
  const stops = STOPS[scale];
  const at = Math.max(0, Math.min(1, part)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const rest = at - low;
  return stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * rest)) as Rgb;
}

export function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

export interface Scale {
  name: ScaleName;
  low: number;
  high: number;
}

/** Values of both signs get the signed scale, with zero in its middle. */
export function scaleFor(low: number | null, high: number | null): Scale {
  if (low === null || high === null) return { name: "plain", low: 0, high: 1 };
  if (low < 0 && high > 0) {
    const reach = Math.max(-low, high);
    return { name: "signed", low: -reach, high: reach };
  }
  return { name: "plain", low, high };
}

export function partOf(scale: Scale, value: number): number {
  return scale.high === scale.low ? 0.5 : (value - scale.low) / (scale.high - scale.low);
}

/** A table of 256 colours, so that drawing only looks up colours. */
export function tableOf(name: ScaleName): Uint8ClampedArray {
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) table.set(colourAt(name, i / 255), i * 3);
  return table;
}

export function paint(data: (number | null)[], scale: Scale): Uint8ClampedArray<ArrayBuffer> {
  const table = tableOf(scale.name);
  const pixels = new Uint8ClampedArray(data.length * 4);
  for (let i = 0; i < data.length; i++) {
    const value = data[i];
    if (value === null || Number.isNaN(value)) pixels.set(MISSING, i * 4);
    else {
      const at = Math.round(Math.max(0, Math.min(1, partOf(scale, value))) * 255) * 3;
      pixels[i * 4] = table[at];
      pixels[i * 4 + 1] = table[at + 1];
      pixels[i * 4 + 2] = table[at + 2];
    }
    pixels[i * 4 + 3] = 255;
  }
  return pixels;
}
