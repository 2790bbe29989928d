import { dagreLayout } from "./dagre";
import type { Layout, LayoutInput } from "./shapes";

export type Reply = { layout: Layout } | { problem: string };

self.onmessage = (event: MessageEvent<LayoutInput>) => {
  let reply: Reply;
  try {
    reply = { layout: dagreLayout(event.data) };
  } catch (problem) {
    reply = { problem: String(problem) };
  }
  self.postMessage(reply);
};
