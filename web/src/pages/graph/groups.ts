// The modules of a graph, and the view of it while some of them are open. Nothing here draws.

import type { Graph, GraphNode } from "../../types";

/** A module: its dotted path, its direct content, and everything below it. */
export interface Group {
  path: string;
  label: string; // without the path of the enclosing group
  parent: string | null;
  groups: string[];
  nodes: string[]; // directly in it
  size: number; // number of nodes in it and below
  seconds: number | null;
  calls: number | null;
}

export interface Groups {
  all: Map<string, Group>;
  top: { groups: string[]; nodes: string[] };
  home: Map<string, string | null>; // the group that contains each node
}

export interface Box {
  id: string;
  label: string;
  node: GraphNode | null; // null: a closed group
  group: Group | null;
  frame: string | null; // the open group that contains it
  seconds: number | null;
  leads: boolean; // whether links lead from it, whose texts show its result
}

export interface Link {
  from: string;
  to: string;
  labels: string[]; // the distinct ones
  count: number;
}

export interface View {
  boxes: Box[];
  frames: Group[];
  links: Link[];
  roomy: boolean; // whether there are few enough links to write a text on each
}

const ROOMY = 60; // links: with text on more, the boxes would be far apart

const groupId = (path: string): string => `module ${path}`;
export const nodeId = (id: string): string => `node ${id}`;

interface Raw {
  path: string;
  children: Map<string, Raw>;
  nodes: GraphNode[];
}

export function groupsOf(nodes: GraphNode[]): Groups {
  const root: Raw = { path: "", children: new Map(), nodes: [] };
  for (const node of nodes) rawFor(root, node.group).nodes.push(node);
  const made: Groups = { all: new Map(), top: { groups: [], nodes: [] }, home: new Map() };
  settle(made, root, null, made.top);
  return made;
}

function rawFor(root: Raw, path: string): Raw {
  let at = root;
  for (const part of path.split(".").filter(Boolean)) {
    let child = at.children.get(part);
    if (!child) {
      child = { path: at.path ? `${at.path}.${part}` : part, children: new Map(), nodes: [] };
      at.children.set(part, child);
    }
    at = child;
  }
  return at;
}

function settle(made: Groups, raw: Raw, parent: string | null, into: { groups: string[]; nodes: string[] }): void {
  for (const node of raw.nodes) {
    into.nodes.push(node.id);
    made.home.set(node.id, parent);
  }
  for (const child of raw.children.values()) {
    const inner = lone(child);
    if (countOf(inner) === 1)
      settle(made, inner, parent, into); // a module with a single node needs no group
    else addGroup(made, inner, parent, into);
  }
}

/** A module that contains only another module gets no box of its own. */
function lone(raw: Raw): Raw {
  let at = raw;
  while (at.nodes.length === 0 && at.children.size === 1) at = [...at.children.values()][0]!;
  return at;
}

function countOf(raw: Raw): number {
  let sum = raw.nodes.length;
  for (const child of raw.children.values()) sum += countOf(child);
  return sum;
}

function addGroup(made: Groups, raw: Raw, parent: string | null, into: { groups: string[] }): void {
  const label = parent && raw.path.startsWith(`${parent}.`) ? raw.path.slice(parent.length + 1) : raw.path;
  const group: Group = { path: raw.path, label, parent, groups: [], nodes: [], size: 0, seconds: null, calls: null };
  made.all.set(raw.path, group);
  into.groups.push(raw.path);
  settle(made, raw, raw.path, group);
  const below = nodesBelow(raw);
  group.size = below.length;
  group.seconds = sumOf(below.map((node) => node.seconds));
  group.calls = sumOf(below.map((node) => node.calls));
}

function nodesBelow(raw: Raw): GraphNode[] {
  return [...raw.nodes, ...[...raw.children.values()].flatMap(nodesBelow)];
}

function sumOf(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

/** The groups around a node or group, outermost first. */
export function pathTo(groups: Groups, home: string | null): string[] {
  const path: string[] = [];
  for (let at = home; at !== null; at = groups.all.get(at)?.parent ?? null) path.unshift(at);
  return path;
}

/** The box that shows a node: its own, or the outermost closed group around it. */
export function boxOf(groups: Groups, open: ReadonlySet<string>, node: string): string {
  const closed = pathTo(groups, groups.home.get(node) ?? null).find((path) => !open.has(path));
  return closed === undefined ? nodeId(node) : groupId(closed);
}

const FEW = 3;
const MANY = 60;

/** All groups are initially closed, except that a single box on its own is opened. */
export function openAtFirst(groups: Groups): Set<string> {
  const open = new Set<string>();
  let { groups: closed, nodes } = groups.top;
  let single = nodes.length;
  while (closed.length > 0 && closed.length + single < FEW) {
    const path = closed.find((each) => fewInside(groups, each));
    if (path === undefined) break;
    const group = groups.all.get(path)!;
    open.add(path);
    closed = [...closed.filter((each) => each !== path), ...group.groups];
    single += group.nodes.length;
  }
  return open;
}

function fewInside(groups: Groups, path: string): boolean {
  const group = groups.all.get(path)!;
  return group.groups.length + group.nodes.length <= MANY;
}

export function viewOf(graph: Graph, groups: Groups, open: ReadonlySet<string>): View {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  const leading = new Set(graph.edges.map((edge) => edge.from));
  const view: View = { boxes: [], frames: [], links: [], roomy: true };
  const show = (inside: { groups: string[]; nodes: string[] }, frame: string | null): void => {
    for (const id of inside.nodes) {
      const node = byId.get(id)!;
      const leads = leading.has(id);
      view.boxes.push({ id: nodeId(id), label: node.label, node, group: null, frame, seconds: node.seconds, leads });
    }
    for (const path of inside.groups) {
      const group = groups.all.get(path)!;
      if (open.has(path)) {
        view.frames.push(group);
        show(group, path);
      } else {
        const { label, seconds } = group;
        view.boxes.push({ id: groupId(path), label, node: null, group, frame, seconds, leads: true });
      }
    }
  };
  show(groups.top, null);
  view.links = linksOf(graph, groups, open);
  view.roomy = view.links.length <= ROOMY;
  if (!view.roomy) view.boxes.forEach((box) => (box.leads = false));
  return view;
}

function linksOf(graph: Graph, groups: Groups, open: ReadonlySet<string>): Link[] {
  const box = new Map(graph.nodes.map((node) => [node.id, boxOf(groups, open, node.id)]));
  const links = new Map<string, Link>();
  for (const edge of graph.edges) {
    const from = box.get(edge.from);
    const to = box.get(edge.to);
    if (from === undefined || to === undefined) continue; // an edge to a node that is not included
    if (from === to && edge.from !== edge.to) continue; // inside a closed group
    const key = `${from}\n${to}`;
    const link = links.get(key) ?? { from, to, labels: [], count: 0 };
    link.count += 1;
    if (edge.label && !link.labels.includes(edge.label)) link.labels.push(edge.label);
    links.set(key, link);
  }
  return [...links.values()];
}

/** The nodes whose label, module, kind or function contains the text. */
export function matching(graph: Graph, text: string): string[] {
  const searchText = text.trim().toLowerCase();
  if (!searchText) return [];
  const fits = (node: GraphNode) =>
    [node.label, node.group, node.kind, node.place?.function ?? ""].some((each) => each.toLowerCase().includes(searchText));
  return graph.nodes.filter(fits).map((node) => node.id);
}

/** 0 … 4 by its share of the longest time; null if no time is known. */
export function heatOf(seconds: number | null, most: number): number | null {
  if (seconds === null || most <= 0) return null;
  return Math.min(4, Math.floor(Math.sqrt(Math.max(0, seconds) / most) * 5));
}
