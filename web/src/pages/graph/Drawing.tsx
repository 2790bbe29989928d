// The visible boxes and links. Zoomed out to thousands of them, they are drawn as a few paths without text.

import { memo } from "preact/compat";
import { TEXT, type Layout, type Point, type Rect } from "../../layout/shapes";
import { classes } from "../../ui";
import { curve, sees, seesLine, type Region } from "./camera";
import { heatOf, type Box, type Group, type Link, type View } from "./groups";
import { cut, linkText, textOf, TINY } from "./measures";

const MANY = 700; // boxes; more are drawn without text
const MANY_LINKS = 1500;

interface DrawingProps {
  view: View;
  layout: Layout;
  region: Region;
  detailed: boolean; // zoomed in enough to read
  chosen: string | null;
  hits: ReadonlySet<string>; // boxes that contain search results
  searching: boolean;
  onToggle: (group: Group) => void;
}

export const Drawing = memo(function Drawing(props: DrawingProps) {
  const { view, layout, region } = props;
  const boxes = view.boxes.filter((box) => layout.boxes[box.id] && sees(region, layout.boxes[box.id]));
  const links = view.links.map((link, index) => ({
    link,
    points: layout.links[index] ?? [],
    text: layout.texts[index] ?? null,
  }));
  const seen = links.filter(({ points }) => points.length > 1 && seesLine(region, points));
  const most = view.boxes.reduce((top, box) => Math.max(top, box.seconds ?? 0), 0);
  const rough = boxes.length > MANY;
  return (
    <>
      {view.frames.map((group) => {
        const rect = layout.frames[`frame ${group.path}`];
        return rect && sees(region, rect) ? (
          <Frame key={group.path} group={group} rect={rect} onToggle={props.onToggle} />
        ) : null;
      })}
      <Links
        links={seen}
        chosen={props.chosen}
        detailed={props.detailed && !rough}
        rough={rough || seen.length > MANY_LINKS}
      />
      {rough ? (
        <Rough boxes={boxes} layout={layout} most={most} hits={props.hits} chosen={props.chosen} />
      ) : (
        boxes.map((box) => (
          <BoxView
            key={box.id}
            box={box}
            rect={layout.boxes[box.id]}
            heat={heatOf(box.seconds, most)}
            chosen={props.chosen === box.id}
            faded={props.searching && !props.hits.has(box.id)}
            detailed={props.detailed}
          />
        ))
      )}
    </>
  );
});

function corner(rect: Rect): Point {
  return { x: rect.x - rect.width / 2, y: rect.y - rect.height / 2 };
}

function Frame({ group, rect, onToggle }: { group: Group; rect: Rect; onToggle: (group: Group) => void }) {
  const { x, y } = corner(rect);
  return (
    <g class="graph-frame">
      <rect x={x} y={y} width={rect.width} height={rect.height} rx={8} />
      <g class="graph-frame-name" onClick={() => onToggle(group)}>
        <title>Close {group.path}</title>
        <rect x={x} y={y} width={Math.min(rect.width, cut(group.label, 30).length * 7 + 30)} height={20} rx={8} />
        <text x={x + 8} y={y + 14}>
          − {cut(group.label, 30)}
        </text>
      </g>
    </g>
  );
}

interface LinksProps {
  links: { link: Link; points: Point[]; text: Point | null }[];
  chosen: string | null;
  detailed: boolean;
  rough: boolean;
}

function Links({ links, chosen, detailed, rough }: LinksProps) {
  const touches = (link: Link) => chosen !== null && (link.from === chosen || link.to === chosen);
  if (rough) {
    const mine = links.filter(({ link }) => touches(link));
    return (
      <>
        <path class="graph-link" d={links.map(({ points }) => curve(points)).join("")} />
        {mine.length > 0 && <path class="graph-link near" d={mine.map(({ points }) => curve(points)).join("")} />}
      </>
    );
  }
  return (
    <>
      {links.map(({ link, points }) => (
        <path
          key={`${link.from}\n${link.to}`}
          class={classes("graph-link", touches(link) && "near")}
          d={curve(points)}
          marker-end="url(#graph-arrow)"
        />
      ))}
      {detailed &&
        links.map(({ link, points, text }) => {
          const near = touches(link);
          const at = text ?? (near && linkText(link) ? middleOf(points) : null);
          return at && <LinkText key={`${link.from}\n${link.to}`} link={link} at={at} near={near} />;
        })}
    </>
  );
}

/** If there is no room for text on every link, the texts of the selected box's links overlay the drawing. */
function middleOf(points: Point[]): Point {
  const [one, other] = [Math.floor, Math.ceil].map((round) => points[round((points.length - 1) / 2)]);
  return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
}

function LinkText({ link, at, near }: { link: Link; at: Point; near: boolean }) {
  const text = linkText(link);
  const width = text.length * TINY;
  return (
    <g class={classes("graph-link-text", near && "near")}>
      <title>{link.labels.slice(0, 30).join("\n")}</title>
      <rect x={at.x - width / 2} y={at.y - TEXT / 2} width={width} height={TEXT} rx={3} />
      <text x={at.x} y={at.y + 3.5} text-anchor="middle">
        {text}
      </text>
    </g>
  );
}

interface BoxViewProps {
  box: Box;
  rect: Rect;
  heat: number | null;
  chosen: boolean;
  faded: boolean;
  detailed: boolean;
}

function BoxView({ box, rect, heat, chosen, faded, detailed }: BoxViewProps) {
  const { x, y } = corner(rect);
  const { title, below } = textOf(box);
  const kind = box.group ? "module" : box.node!.kind;
  return (
    <g
      class={classes(
        "graph-box",
        chosen && "chosen",
        faded && "faded",
        heat !== null && `heat-${heat}`,
        `kind-${kindClass(kind)}`,
      )}
      transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`}
      data-box={box.id}
      role="button"
      tabindex={detailed ? 0 : -1}
      aria-pressed={chosen}
      aria-label={`${kind} ${box.label}${below ? `, ${below}` : ""}`}
    >
      {box.group && <rect class="graph-back" x={4} y={-4} width={rect.width - 8} height={rect.height} rx={6} />}
      <rect
        class="graph-body"
        width={rect.width}
        height={rect.height}
        rx={kind === "input" || kind === "output" ? rect.height / 2 : 6}
      />
      {detailed && (
        <>
          <text class="graph-title" x={rect.width / 2} y={below ? 18 : rect.height / 2 + 4} text-anchor="middle">
            {box.group ? `+ ${title}` : title}
          </text>
          {below && (
            <text class="graph-below" x={rect.width / 2} y={33} text-anchor="middle">
              {below}
            </text>
          )}
        </>
      )}
    </g>
  );
}

/** Kinds come from the run; only plain words become classes. */
function kindClass(kind: string): string {
  return /^[a-z]+$/.test(kind) ? kind : "other";
}

interface RoughProps {
  boxes: Box[];
  layout: Layout;
  most: number;
  hits: ReadonlySet<string>;
  chosen: string | null;
}

/** Thousands of boxes as one path per colour. */
function Rough({ boxes, layout, most, hits, chosen }: RoughProps) {
  const paths = new Map<string, string>();
  for (const box of boxes) {
    const { width, height, ...centre } = layout.boxes[box.id];
    const { x, y } = corner({ ...centre, width, height });
    const heat = heatOf(box.seconds, most);
    const look = chosen === box.id ? "chosen" : hits.has(box.id) ? "hit" : heat === null ? "plain" : `heat-${heat}`;
    paths.set(look, `${paths.get(look) ?? ""}M${x.toFixed(0)} ${y.toFixed(0)}h${width}v${height}h${-width}z`);
  }
  return (
    <>
      {[...paths].map(([look, path]) => (
        <path key={look} class={`graph-rough ${look}`} d={path} />
      ))}
    </>
  );
}
