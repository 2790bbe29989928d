// Made-up answers for `npm run dev`, so that pages can be worked on without a run. Never part of the build.
// Each file in mock/ exports `answers`: what is asked for ("runs", "series", "" for the overview) → what is told.

import { readdirSync } from "node:fs";
import type { Plugin } from "vite";

export interface Ask {
  run: string;
  q: URLSearchParams;
  body: Record<string, unknown>;
}

export type Answers = Record<string, (ask: Ask) => unknown>;

export function mock(): Plugin {
  return {
    name: "made-up-answers",
    configureServer(server) {
      server.middlewares.use(async (request, response, next) => {
        const url = new URL(request.url ?? "/", "http://localhost");
        if (!url.pathname.startsWith("/api/")) return next();
        let text = "";
        for await (const part of request) text += String(part);
        const parts = url.pathname.split("/").slice(2).map(decodeURIComponent);
        const [what, run] = parts[0] === "run" ? [parts.slice(2).join("/"), parts[1]] : [parts[0], ""];
        const send = (status: number, answer: unknown) => {
          response.writeHead(status, { "Content-Type": "application/json" });
          response.end(JSON.stringify(answer));
        };
        try {
          const all: Answers = {};
          for (const file of readdirSync(`${server.config.root}/mock`)) {
            Object.assign(all, (await server.ssrLoadModule(`/mock/${file}`)).answers);
          }
          const answer = all[what]?.({ run, q: url.searchParams, body: text ? JSON.parse(text) : {} });
          if (answer === undefined) send(404, { error: `There is no ${what} here.`, remedy: "", slug: "mock" });
          else send(200, answer);
        } catch (problem) {
          send(500, { error: String(problem), remedy: "Mend the mock.", slug: "mock" });
        }
      });
    },
  };
}
