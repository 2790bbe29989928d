import { Graph, layout } from "@dagrejs/dagre";
import { GAP, LAYER, type Layout, type LayoutInput, type Rect } from "./shapes";

const MARGIN = 16;

/** The good layout; its time grows faster than the graph, so it runs in a worker that can be stopped. */
export function dagreLayout(input: LayoutInput): Layout {
  const graph = new Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: GAP, ranksep: LAYER, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const frame of input.frames) graph.setNode(frame.id, {});
  for (const box of input.boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  for (const { id, frame } of [...input.frames, ...input.boxes]) {
    if (frame !== null) graph.setParent(id, frame);
  }
  input.links.forEach((link, index) => graph.setEdge(link.from, link.to, {}, String(index)));
  layout(graph);
  return read(graph, input);
}

function read(graph: Graph, input: LayoutInput): Layout {
  const whole = graph.graph() as { width?: number; height?: number };
  const rect = (id: string): Rect => {
    const { x = 0, y = 0, width = 0, height = 0 } = graph.node(id) as Partial<Rect>;
    return { x, y, width, height };
  };
  return {
    boxes: Object.fromEntries(input.boxes.map((box) => [box.id, rect(box.id)])),
    frames: Object.fromEntries(input.frames.map((frame) => [frame.id, rect(frame.id)])),
    links: input.links.map((link, index) => {
      const edge = graph.edge(link.from, link.to, String(index)) as { points?: { x: number; y: number }[] };
      return (edge.points ?? []).map(({ x, y }) => ({ x, y }));
    }),
    width: whole.width ?? 0,
    height: whole.height ?? 0,
  };
}
