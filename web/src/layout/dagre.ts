import { Graph, layout } from "@dagrejs/dagre";
import { withLoops } from "./loops";
import { GAP, LAYER, TEXT, type Layout, type LayoutInput, type Point, type Rect } from "./shapes";

const MARGIN = 16;

type Edge = Partial<Point> & { points?: Point[] };

/** The good layout. Its time grows faster than the graph, so it runs in a worker that can be stopped. */
export const dagreLayout = withLoops((input: LayoutInput): Layout => {
  const graph = new Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: GAP, ranksep: LAYER, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const frame of input.frames) graph.setNode(frame.id, {});
  for (const box of input.boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  for (const { id, frame } of [...input.frames, ...input.boxes]) {
    if (frame !== null) graph.setParent(id, frame);
  }
  input.links.forEach((link, index) => {
    const written = link.text ? { width: link.text, height: TEXT, labelpos: "c" } : {};
    graph.setEdge(link.from, link.to, written, String(index));
  });
  layout(graph);
  return read(graph, input);
});

function read(graph: Graph, input: LayoutInput): Layout {
  const whole = graph.graph() as { width?: number; height?: number };
  const rect = (id: string): Rect => {
    const { x = 0, y = 0, width = 0, height = 0 } = graph.node(id) as Partial<Rect>;
    return { x, y, width, height };
  };
  const edges = input.links.map((link, index) => graph.edge(link.from, link.to, String(index)) as Edge);
  return {
    boxes: Object.fromEntries(input.boxes.map((box) => [box.id, rect(box.id)])),
    frames: Object.fromEntries(input.frames.map((frame) => [frame.id, rect(frame.id)])),
    links: edges.map((edge) => (edge.points ?? []).map(({ x, y }) => ({ x, y }))),
    texts: edges.map(({ x, y }, index) =>
      input.links[index].text && x !== undefined && y !== undefined ? { x, y } : null,
    ),
    width: whole.width ?? 0,
    height: whole.height ?? 0,
  };
}
