// The input and output of a layout: boxes with sizes in, positions out. Positions are centres, as in dagre.

export interface LayoutBox {
  id: string;
  width: number;
  height: number;
  frame: string | null; // the open group that contains it
}

export interface LayoutFrame {
  id: string;
  frame: string | null;
}

export interface LayoutLink {
  from: string;
  to: string;
  text: number; // width of its text in px; 0 for none
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
  frames: Record<string, Rect>; // empty if the layout does not support frames
  links: Point[][]; // one per link, in order
  texts: (Point | null)[]; // the centre of each link's text
  width: number;
  height: number;
}

export const GAP = 28; // between boxes of a layer
export const LAYER = 52; // between layers
export const TEXT = 14; // height of a link's text
