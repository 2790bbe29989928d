// What a layout is asked for and what it gives: boxes with sizes in, places out. Centres, not corners, as dagre has it.

export interface LayoutBox {
  id: string;
  width: number;
  height: number;
  frame: string | null; // the open group it lies in
}

export interface LayoutFrame {
  id: string;
  frame: string | null;
}

export interface LayoutLink {
  from: string;
  to: string;
  text: number; // px of what is written on it; 0: nothing is
}

export interface LayoutInput {
  boxes: LayoutBox[];
  frames: LayoutFrame[];
  links: LayoutLink[];
}

export interface Point {
  x: number;
  y: number;
}

export interface Rect {
  x: number; // centre
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  boxes: Record<string, Rect>;
  frames: Record<string, Rect>; // empty where the layout knows no frames
  links: Point[][]; // one a link, in order
  texts: (Point | null)[]; // where what is written on a link has its middle
  width: number;
  height: number;
}

export const GAP = 28; // between boxes of a layer
export const LAYER = 52; // between layers
export const TEXT = 14; // how high what is written on a link is
