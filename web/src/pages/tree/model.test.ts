import { describe, expect, it, vi } from "vitest";
import { TreeModel } from "./model";
import { branch, call, change, fold, Server } from "./tree.fixtures";

function steps(count: number, from = 0) {
  return Array.from({ length: count }, (_, i) => call(`s${from + i}`, { start: from + i, inside: 1 }));
}

function shown(model: TreeModel): string[] {
  return model.rows().rows.map((row) => (row.kind === "node" ? row.key : row.kind));
}

describe("the tree somebody walks in", () => {
  it("asks for a branch when it is opened, and once only", async () => {
    const server = new Server({ "": [call("a", { inside: 1 }), call("b")], a: [change("x")] });
    const model = new TreeModel(server.ask, () => {});
    await model.start();
    expect(server.asked).toHaveLength(1);
    await Promise.all([model.openKey("call a"), model.openKey("call a")]);
    model.close("call a");
    await model.openKey("call a");
    expect(server.asked).toHaveLength(2);
    expect(shown(model)).toEqual(["call a", "change a 0", "call b"]);
  });

  it("opens the only root by itself, unless very much lies in it", async () => {
    const model = new TreeModel(new Server({ "": [call("a", { inside: 1 })], a: [change("x")] }).ask, () => {});
    await model.start();
    expect([shown(model), model.onlyRoot()]).toEqual([["call a", "change a 0"], "a"]);
    const large = new TreeModel(new Server({ "": [call("a", { inside: 10_000_000 })] }).ask, () => {});
    await large.start();
    expect([shown(large), large.onlyRoot()]).toEqual([["call a"], null]);
  });

  it("leads a search for values into the calls they lie in", async () => {
    const server = new Server({ "": [call("a", { inside: 1, fits: true })], a: [change("x")] });
    const model = new TreeModel(server.ask, () => {}, "to values");
    await model.start();
    await vi.waitFor(() => expect(shown(model)).toEqual(["call a", "change a 0"]));
  });

  it("opens a fold to its siblings, unfolded", async () => {
    const server = new Server({ "": steps(20) });
    const model = new TreeModel(server.ask, () => {});
    await model.start();
    expect(shown(model)).toEqual(["call s0", "call s1", "call s2", "fold  3"]);
    await model.openKey("fold  3");
    expect(server.asked[1]).toEqual({ parent: null, offset: 3, limit: 17, fold: false });
    expect(shown(model).slice(-2)).toEqual(["call s18", "call s19"]);
  });

  it("does not open a fold for ever that is answered with itself", async () => {
    const folded = branch([fold(0, 9)], { total: 9 });
    const model = new TreeModel(
      async () => folded,
      () => {},
    );
    await model.start();
    await model.openKey("fold  0");
    expect(shown(model)).toEqual(["fold  0", "note"]);
  });

  it("fills a hole where it is looked at", async () => {
    const server = new Server({ "": steps(5000) });
    const model = new TreeModel(server.ask, () => {});
    await model.start();
    await model.load("root", 2050);
    expect(shown(model)).toContain("call s2050");
    expect(model.rows().lines).toBe(5000);
  });

  it("says what went wrong and asks again when told to", async () => {
    const ask = vi
      .fn()
      .mockRejectedValueOnce(new Error("the run was deleted"))
      .mockResolvedValue(branch([call("a")]));
    const model = new TreeModel(ask, () => {});
    await model.start();
    expect(model.rows().rows[0]).toMatchObject({ kind: "note", problem: "the run was deleted" });
    await model.again("root");
    expect(shown(model)).toEqual(["call a"]);
  });

  it("opens the way to a call through pages and folds", async () => {
    const inner = Array.from({ length: 30 }, (_, i) => call(`i${i}`, { start: 4000 + i / 100 }));
    const server = new Server({ "": [call("main", { inside: 5000 })], main: steps(5000), s4000: inner });
    const model = new TreeModel(server.ask, () => {});
    await model.start();
    const key = await model.reveal(await server.detailOf("i17"), server.detailOf);
    expect(key).toBe("call i17");
    expect(shown(model)).toContain("call i17");
    expect(server.asked.length).toBeLessThan(14);
  });

  it("finds every call of many, however unevenly they began", async () => {
    const uneven = Array.from({ length: 3000 }, (_, i) =>
      call(`u${i}`, { start: i < 2900 ? i / 1e6 : Math.exp(i - 2900) }),
    );
    const server = new Server({ "": uneven });
    for (const wanted of [0, 1, 64, 1499, 2899, 2900, 2901, 2998, 2999]) {
      const model = new TreeModel(server.ask, () => {});
      expect(await model.reveal(await server.detailOf(`u${wanted}`), server.detailOf)).toBe(`call u${wanted}`);
    }
  });

  it("gives up on a call that is not there instead of asking for ever", async () => {
    const server = new Server({ "": steps(5000) });
    const model = new TreeModel(server.ask, () => {});
    const ghost = { call: call("ghost", { start: 77 }), parents: [], callers: [] };
    expect(await model.reveal(ghost, server.detailOf)).toBeNull();
  });

  it("opens by itself what only leads to what a filter found", async () => {
    const server = new Server({
      "": [call("a", { inside: 1, fits: false }), call("z", { inside: 1 })],
      a: [call("b", { error: "ValueError" })],
    });
    const model = new TreeModel(server.ask, () => {}, "to calls");
    await model.start();
    await vi.waitFor(() => expect(shown(model)).toEqual(["call a", "call b", "call z"]));
  });

  it("opens a fold by itself that holds what a filter found", async () => {
    const model = new TreeModel(new Server({ "": steps(20) }).ask, () => {}, "to calls");
    await model.start();
    await vi.waitFor(() => expect(shown(model).slice(-1)).toEqual(["call s19"]));
  });

  it("shows what a run has written since", async () => {
    const children = { "": steps(3) };
    const server = new Server(children);
    const model = new TreeModel(server.ask, () => {});
    await model.start();
    children[""].push(...steps(1, 3));
    await model.refresh();
    expect(shown(model)).toHaveLength(4);
  });

  it("lets an opened fold grow with the run", async () => {
    const children = { "": steps(20) };
    const server = new Server(children);
    const model = new TreeModel(server.ask, () => {});
    await model.start();
    await model.openKey("fold  3");
    children[""].push(...steps(5, 20));
    await model.refresh();
    await model.load("fold  3", 22);
    expect(shown(model).slice(-1)).toEqual(["call s24"]);
  });

  it("tells nothing after it was left", async () => {
    const changed = vi.fn();
    const model = new TreeModel(new Server({ "": steps(3) }).ask, changed);
    const started = model.start();
    model.leave();
    await started;
    expect(changed).not.toHaveBeenCalled();
  });
});
