/**
 * Exponential moving average with the start corrected, so that the first values are not drawn towards zero.
 * `weight` is how much of the past is kept: 0 gives the values themselves. Gaps stay gaps.
 */
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  const memory = Math.min(weight, 0.9999);
  let average = 0;
  let known = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null;
    average = average * memory + value * (1 - memory);
    known += 1;
    return average / (1 - memory ** known);
  });
}
