import { render } from "preact";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { address, canonical, get, LiveContext, openReport, post, Refused, runPath, theReport, useAnswer } from "./api";
import type { Curve } from "./types";

const CURVE: Curve = {
  name: "a b",
  axis: "step",
  total: 3,
  inside: 3,
  range: [0, 2],
  reduced: false,
  x: [0, 1, 2],
  y: [1, 2, 3],
  marks: [],
  marksTotal: 0,
};

afterEach(() => {
  openReport("");
  vi.unstubAllGlobals();
  document.body.innerHTML = "";
});

describe("a report", () => {
  beforeEach(() => {
    const answers = { "/api/run/r%201/series?axis=step&name=a+b": CURVE, "/api/run/r%201": { run: "x" } };
    openReport(JSON.stringify({ made: "today", title: "t", run: "r 1", answers }));
    vi.stubGlobal("fetch", () => expect.fail("a report fetched something"));
  });

  test("answers from inside, however the address was escaped", async () => {
    expect(theReport()?.run).toBe("r 1");
    expect(await get(runPath("r 1"))).toEqual({ run: "x" });
    expect(await get(runPath("r 1", "series"), { name: "a b", axis: "step" })).toEqual(CURVE);
  });
  test("cuts the whole curve to what is looked at", async () => {
    const cut = await get<Curve>(runPath("r 1", "series"), { name: "a b", axis: "step", from: 1.5, to: 9, px: 100 });
    expect(cut.x).toEqual([1, 2]);
  });
  test("gives the fineness it has", async () => {
    const answers = {
      "/api/run/r/histogram?bins=40&columns=100&name=w": { x: [1] },
      "/api/run/r/point?name=w&x=3.0": { index: 3 },
    };
    openReport(JSON.stringify({ made: "today", title: "t", run: "r", answers }));
    expect(await get(runPath("r", "histogram"), { name: "w", columns: 160, bins: 48 })).toEqual({ x: [1] });
    expect(await get(runPath("r", "point"), { name: "w", x: 3 })).toEqual({ index: 3 });
  });
  test("says what is not in it", async () => {
    const asked = get(runPath("r 1", "tree"));
    await expect(asked).rejects.toBeInstanceOf(Refused);
    await expect(asked).rejects.toMatchObject({ refusal: { slug: "not-in-report" } });
  });
  test("cannot be changed", async () => {
    await expect(post(runPath("r 1", "edit"), {})).rejects.toMatchObject({ refusal: { slug: "report" } });
  });
});

test("one spelling for an address", () => {
  expect(canonical("/api/run/a%2Fb?b=1&a=x+y")).toBe(canonical("/api/run/a/b?a=x%20y&b=1"));
  expect(canonical("/api?a=1")).not.toBe(canonical("/api?a=2"));
});

function answering(...answers: (() => Promise<Response>)[]): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(url);
    return answers[Math.min(asked.length, answers.length) - 1]();
  });
  return asked;
}

const ok = (body: unknown) => async () => new Response(JSON.stringify(body));
const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 });

describe("a server", () => {
  test("is asked without a token, for the browser has it as a cookie", async () => {
    const fetched = vi.fn(ok({ runs: [] }));
    vi.stubGlobal("fetch", fetched);
    await get("/api/runs", { q: 1 });
    const [url, init] = fetched.mock.calls[0] as unknown as [string, RequestInit];
    expect(url).toBe("/api/runs?q=1");
    expect(init.headers).not.toHaveProperty("Authorization");
  });
  test("is asked with the token in a header where the page holds it", async () => {
    document.head.innerHTML = '<meta name="clew-token" content="secret">';
    const fetched = vi.fn(ok({ runs: [] }));
    vi.stubGlobal("fetch", fetched);
    await get("/api/runs", { q: 2 });
    document.head.innerHTML = "";
    const [url, init] = fetched.mock.calls[0] as unknown as [string, RequestInit];
    expect(url).toBe("/api/runs?q=2");
    expect(init.headers).toHaveProperty("Authorization", "Bearer secret");
  });
  test("that refuses is quoted", async () => {
    const refusal = { error: "No such run.", remedy: "Choose another.", slug: "no-run" };
    answering(async () => new Response(JSON.stringify(refusal), { status: 404 }));
    await expect(get("/api/run/x")).rejects.toMatchObject({ refusal, status: 404 });
  });
  test("that answers nonsense, or nothing, is no end of the page", async () => {
    answering(async () => new Response("<html>", { status: 500 }));
    await expect(get("/api/run/x")).rejects.toMatchObject({ refusal: { slug: "http" } });
    answering(async () => Promise.reject(new TypeError("failed")));
    await expect(get("/api/run/x")).rejects.toMatchObject({ refusal: { slug: "no-server" } });
  });
});

describe("useAnswer", () => {
  function Shown({ path, n }: { path: string | null; n?: number }) {
    const { data, error, stale, loading } = useAnswer<{ v: number }>(path, { n });
    return <p>{JSON.stringify({ v: data?.v ?? null, error: error?.slug ?? null, stale, loading })}</p>;
  }
  const shown = () => JSON.parse(document.querySelector("p")!.textContent!);
  const draw = (path: string | null, n?: number) => render(<Shown path={path} n={n} />, document.body);
  afterEach(() => render(null, document.body));

  test("keeps the old answer while the new one is awaited", async () => {
    let give: ((answer: Response) => void) | null = null;
    answering(ok({ v: 1 }), () => new Promise((done) => (give = done)));
    draw("/api/keeps", 1);
    await until(() => expect(shown()).toEqual({ v: 1, error: null, stale: false, loading: false }));
    draw("/api/keeps", 2);
    await until(() => expect(give).not.toBeNull());
    expect(shown()).toEqual({ v: 1, error: null, stale: true, loading: true });
    give!(new Response('{"v": 2}'));
    await until(() => expect(shown()).toEqual({ v: 2, error: null, stale: false, loading: false }));
  });
  test("another path does not show the answer of the one before", async () => {
    answering(ok({ v: 1 }), () => new Promise(() => {}));
    draw("/api/one");
    await until(() => expect(shown().v).toBe(1));
    draw("/api/two");
    expect(shown().v).toBeNull();
  });
  test("a run that grows while an answer is made does not keep it from coming", async () => {
    function Live({ version }: { version: number }) {
      const { data } = useAnswer<{ v: number }>("/api/grows", {}, { live: true });
      return (
        <p>
          {version} {data?.v ?? "none"}
        </p>
      );
    }
    const grown = (version: number) =>
      render(
        <LiveContext.Provider value={{ version, status: "running", overview: null }}>
          <Live version={version} />
        </LiveContext.Provider>,
        document.body,
      );
    let give: ((answer: Response) => void) | null = null;
    const asked = answering(() => new Promise((done) => (give = done)), ok({ v: 2 }));
    grown(1);
    await until(() => expect(give).not.toBeNull());
    for (const version of [2, 3, 4]) {
      grown(version);
      await new Promise((done) => setTimeout(done, 20));
    }
    expect(asked).toHaveLength(1);
    give!(new Response('{"v": 1}'));
    await until(() => expect(document.querySelector("p")!.textContent).toBe("4 2"));
    expect(asked).toHaveLength(2); // and it is asked once more, for what has come since
  });
  test("asks nothing without a path", async () => {
    const asked = answering(ok({ v: 1 }));
    draw(null);
    await new Promise((done) => setTimeout(done, 50));
    expect(asked).toEqual([]);
    expect(shown().loading).toBe(false);
  });
  test("tells a refusal, and is not left waiting", async () => {
    answering(async () => Promise.reject(new TypeError("failed")));
    draw("/api/refused");
    await until(() => expect(shown()).toMatchObject({ v: null, error: "no-server", loading: false }));
  });
});

test("addresses leave out what is not asked", () => expect(address("/api/x", { a: null, b: 2 })).toBe("/api/x?b=2"));
