// The gateway's tools, as clients that nobody here wrote see them.
//
// Usage: run.mjs BINARY PYTHON FIXTURES
//
// Each case prints `ok NAME` or `FAILED NAME`; the last line is `N passed, N failed`, and the exit
// status is 1 when a case failed.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import * as second from "@modelcontextprotocol/client";
import * as secondStdio from "@modelcontextprotocol/client/stdio";
import * as first from "@modelcontextprotocol/sdk/client/index.js";
import * as firstStdio from "@modelcontextprotocol/sdk/client/stdio.js";
import * as firstHttp from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { open, withKey } from "./scene.mjs";

const [binary, python, fixtures] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const packages = join(here, "node_modules", "@modelcontextprotocol");
const OWN = ["stripe_refund", "get_intent", "list_refunds", "get_budget", "get_approval_status", "cancel_refund"];
// In bytes, of the list as the gateway sends it.
const LIST_BYTES_MAX = 8 * 1024;
const LEGACY = "2025-11-25";
const MODERN = "2026-07-28";

// The suite's scenarios that need no tools, prompts or resources of the suite's own.
const AGNOSTIC = {
  [LEGACY]: ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"],
  [MODERN]: [
    "server-stateless",
    "tools-list",
    "server-sse-multiple-streams",
    "sep-2164-resource-not-found",
    "dns-rebinding-protection",
    "input-required-result-unsupported-methods",
    "http-header-validation",
  ],
};

const scene = await open(binary);
const environment = { BURNBOUND_GATEWAY_URL: scene.gateway, BURNBOUND_KEY: scene.key };
const url = `${scene.gateway}/mcp`;
let expected = 0;

// Runs a program to its end.
function run(program, words, more = {}) {
  return new Promise((done, failed) => {
    const env = { PATH: process.env.PATH, HOME: here, NO_COLOR: "1", ...more };
    const child = spawn(program, words, { env, stdio: ["ignore", "pipe", "pipe"] });
    let [out, err] = ["", ""];
    child.stdout.on("data", (text) => (out += text));
    child.stderr.on("data", (text) => (err += text));
    child.on("error", failed);
    child.on("close", (code) => done({ code, out, err }));
  });
}

// One whole use by one SDK: the list, one refund, the same again, an error, a read. The SDK holds
// each structured result against the tool's output schema, and throws when it does not fit.
async function use(client, key) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), OWN);
  const call = (name, given) => client.callTool({ name, arguments: given });
  const refund = { target: scene.charge, amountMinor: 100, idempotencyKey: key };
  for (const replayed of [false, true]) {
    const { structuredContent: made, content, isError } = await call("stripe_refund", refund);
    assert.ok(!isError, JSON.stringify(content));
    assert.deepEqual([made.status, made.replayed], ["refunded", replayed]);
    assert.deepEqual(JSON.parse(content[0].text), made);
  }
  expected += 1;
  const wrong = await call("stripe_refund", { ...refund, amountMinor: -5 });
  assert.ok(wrong.isError);
  assert.match(JSON.parse(wrong.content[0].text).detail, /Nothing was refunded\./);
  const found = await call("get_intent", { idempotencyKey: key });
  assert.equal(found.structuredContent.status, "refunded");
  for (const [name, given] of [["list_refunds", {}], ["get_budget", {}]]) {
    const answer = await call(name, given);
    assert.ok(!answer.isError && answer.structuredContent, JSON.stringify(answer));
  }
  await client.close();
}

const headers = { Authorization: `Bearer ${scene.key}` };
const me = { name: "clients", version: "1" };

const transports = {
  http: (sdk) => new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
  stdio: (sdk) =>
    new sdk.StdioClientTransport({ command: binary, args: ["mcp"], env: environment }),
};

async function inspected(era, door) {
  const inspector = join(packages, "inspector", "clients", "launcher", "build", "index.js");
  const words = [inspector, "--cli", "--protocol-era", era, "--method", "tools/list", "--strict"];
  const http = [url, "--transport", "http", "--header", `Authorization: Bearer ${scene.key}`];
  const variables = Object.entries(environment).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  const target = door === "http" ? http : [...variables, binary, "mcp"];
  const { code, out, err } = await run(process.execPath, [...words, ...target]);
  assert.equal(code, 0, err);
  assert.doesNotMatch(err, /Schema portability|problem|warning/i);
  return out;
}

async function conforms(revision, scenario) {
  const proxy = await withKey(scene);
  const folder = mkdtempSync(join(tmpdir(), "action-gateway-conformance-"));
  try {
    const suite = join(packages, "conformance", "dist", "index.js");
    const words = ["server", "--url", proxy.url, "--scenario", scenario, "--spec-version", revision];
    const { out, err } = await run(process.execPath, [suite, ...words, "-o", folder]);
    const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith("checks.json"));
    assert.equal(files.length, 1, out + err);
    const checks = JSON.parse(readFileSync(join(folder, files[0]), "utf8"));
    // What the suite cannot see without tools of its own says so.
    const fails = ({ status, errorMessage }) =>
      status === "FAILURE" && !(errorMessage ?? "").startsWith("Not testable: ");
    assert.deepEqual(checks.filter(fails), []);
    assert.ok(checks.some(({ status }) => status === "SUCCESS"), out);
  } finally {
    proxy.close();
    rmSync(folder, { recursive: true });
  }
}

// Everything that a revision requires, on the gateway with the suite's fixtures. What decides is the
// suite's own exit status: 0 when no scenario failed that counts and is not expected to.
async function meets(revision, variables, words) {
  const carrying = await open(fixtures, variables);
  const proxy = await withKey(carrying);
  try {
    const suite = join(packages, "conformance", "dist", "index.js");
    const what = ["server", "--url", proxy.url, "--requirements", revision, ...words];
    const { code, out, err } = await run(process.execPath, [suite, ...what]);
    assert.equal(code, 0, out + err);
    assert.match(out, /^✓ tools-call-with-progress: 2 passed/m);
  } finally {
    proxy.close();
    carrying.close();
  }
}

// The manual's page on testing an agent, run as it stands there: each file that it names, and then
// the script among them.
async function recipe() {
  const folder = mkdtempSync(join(tmpdir(), "action-gateway-recipe-"));
  try {
    const page = readFileSync(join(here, "testing.md"), "utf8");
    const files = [...page.matchAll(/^\*\*`(\S+)`\*\*\n\n```\w+\n(.*?)^```$/gms)];
    assert.deepEqual(files.map(([, name]) => name), ["policy.toml", "test.sh", "test_agent.py"]);
    for (const [, name, text] of files) writeFileSync(join(folder, name), text);
    // What somebody who follows it has installed.
    symlinkSync(binary, join(folder, "action-gateway"));
    const PATH = [folder, dirname(python), process.env.PATH].join(":");
    const { code, out, err } = await run("bash", ["-c", `cd "${folder}" && bash test.sh`], { PATH });
    assert.equal(code, 0, out + err);
    assert.match(out, /^the agent did what it may, and no more$/m);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const cases = [];
for (const door of ["http", "stdio"]) {
  for (const era of ["legacy", "modern"]) {
    cases.push([`inspector over ${door}, ${era}: strict, and the same twice`, async () => {
      const lists = [await inspected(era, door), await inspected(era, door)];
      assert.equal(lists[0], lists[1]);
      const names = JSON.parse(lists[0]).tools.map((tool) => tool.name);
      assert.deepEqual(names, OWN);
      for (const name of names) assert.match(name, /^[a-z0-9_]{1,40}$/);
    }]);
  }
  cases.push([`sdk 1.32.2 over ${door}`, async () => {
    const client = new first.Client(me);
    await client.connect(transports[door]({ ...firstHttp, ...firstStdio }));
    await use(client, `first-${door}`);
  }]);
  for (const mode of ["legacy", { pin: MODERN }]) {
    const era = mode.pin ?? mode;
    cases.push([`client 2.4.0 over ${door}, ${era}`, async () => {
      const client = new second.Client(me, { versionNegotiation: { mode } });
      await client.connect(transports[door]({ ...second, ...secondStdio }));
      await use(client, `second-${door}-${era}`);
    }]);
  }
  for (const mode of ["legacy", MODERN]) {
    cases.push([`Python mcp 2.3.0 over ${door}, ${mode}`, async () => {
      const key = `python-${door}-${mode}`;
      const words = [join(here, "sdk.py"), door, mode, url, binary, scene.charge, key];
      const { code, out, err } = await run(python, words, environment);
      assert.equal(code, 0, out + err);
      expected += 1;
    }]);
  }
}
for (const [revision, scenarios] of Object.entries(AGNOSTIC)) {
  for (const scenario of scenarios) {
    cases.push([`conformance ${revision}: ${scenario}`, () => conforms(revision, scenario)]);
  }
}
cases.push([`conformance ${MODERN}: all that it requires`, () => meets(MODERN, {}, [])]);
cases.push([`conformance ${LEGACY}: all that it requires, in sessions`, () =>
  meets(LEGACY, { FIXTURES_SESSIONS: "1" }, [])]);
// Each of the expected failures takes the time that it is given.
const known = ["--expected-failures", join(here, "expected-failures.yml"), "--timeout", "3000"];
cases.push([`conformance ${LEGACY}: without sessions, as shipped`, () => meets(LEGACY, {}, known)]);
cases.push(["the manual's recipe for testing an agent", recipe]);
cases.push(["the list is small", async () => {
  const answer = await fetch(`${scene.gateway}/v1/tools`, { headers });
  const bytes = (await answer.arrayBuffer()).byteLength;
  assert.ok(bytes < LIST_BYTES_MAX, `${bytes} bytes`);
}]);
cases.push(["one refund for each client", async () => {
  assert.equal((await scene.refunds()).length, expected);
}]);

let failed = 0;
for (const [name, check] of cases) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack}`);
  }
}
scene.close();
console.log(`${cases.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
