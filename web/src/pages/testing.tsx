// For the tests of pages: answers that are made up, a page that is drawn, and patience.

import { render, type ComponentChildren } from "preact";
import { vi } from "vitest";

export type Answers = Record<string, unknown | ((query: URLSearchParams) => unknown)>;

/** Answers by the end of the path: {"tree": …, "call": (query) => …}. What is not there is refused. */
export function answerWith(answers: Answers): URLSearchParams[] {
  const asked: URLSearchParams[] = [];
  const answer = async (url: string): Promise<Response> => {
    const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
    asked.push(searchParams);
    const found = answers[pathname.split("/").pop() ?? ""];
    if (found === undefined)
      return Response.json({ error: "There is no such run.", remedy: "Look again.", slug: "gone" }, { status: 404 });
    return Response.json(typeof found === "function" ? found(searchParams) : found);
  };
  vi.stubGlobal("fetch", (url: string) => answer(url));
  return asked;
}

export function show(page: ComponentChildren): HTMLElement {
  document.body.replaceChildren();
  const root = document.createElement("div");
  document.body.append(root);
  render(page, root);
  return root;
}

export function query(text = ""): URLSearchParams {
  return new URLSearchParams(text);
}

export function press(element: Element, key: string): void {
  element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}
