// Icons of 16 by 16 pixels in the colour of the surrounding text.

const DRAWINGS = {
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.4 10.4 14 14",
  close: "M4 4l8 8M12 4l-8 8",
  right: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  up: "M3.5 10 8 5.5 12.5 10",
  back: "M10 3.5 5.5 8l4.5 4.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  moon: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  auto: "M8 2.2a5.8 5.8 0 1 1 0 11.6A5.8 5.8 0 0 1 8 2.2zM8 2.2v11.6M9.5 4.5h2M9.5 8h4M9.5 11.5h2",
  help: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6M8 12.3h.01",
  warn: "M8 2.2 14.4 13.4H1.6zM8 6.5v3.2M8 11.6h.01",
  check: "M3 8.5 6.5 12 13 4.5",
  pencil: "M3 13l.6-2.6 7-7 2 2-7 7z",
  tag: "M2.5 2.5h5l6 6-5 5-6-6zM5.500 5.500h.01",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.5 8.5h6l.5-8.5",
  compare: "M5.5 2.5v11M10.5 2.5v11M2 6l3.5-3.5M14 10l-3.5 3.5",
  thread: "M3.2 10.8C2 6 6.5 2 10.5 4s3.500 7.500-1 8.500-6-3-3.500-5 5 .5 3.500 2.500",
};

export type IconName = keyof typeof DRAWINGS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={DRAWINGS[name]} />
    </svg>
  );
}
