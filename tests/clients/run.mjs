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
const GRANTED = ["finance_payments", "finance_balance", "customers_search", "finance_disputes", "finance_refund"];
const LEGACY = "2025-11-25";
const MODERN = "2026-07-28";

// The suite's scenarios that need no tools, prompts or resources of the suite's own.
const AGNOSTIC = {
  "2025-06-18": ["server-initialize", "ping", "tools-list"],
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
const url = `${scene.gateway}/mcp`;
const environment = (key) => ({ BURNBOUND_GATEWAY_URL: scene.gateway, BURNBOUND_KEY: key });
const bearer = (key) => ({ Authorization: `Bearer ${key}` });
// Two agents: the tools that each has, and the most that its list may be, in bytes as it is sent.
const AGENTS = [
  { who: "its own tools", key: scene.key, names: OWN, bytesMax: 8 * 1024 },
  { who: "all tools", key: scene.staffKey, names: [...OWN, ...GRANTED], bytesMax: 20_000 },
];
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

// A tool's answer over plain HTTP.
async function asked(key, tool, given) {
  const headers = { ...bearer(key), "content-type": "application/json" };
  const asked = await fetch(`${scene.gateway}/v1/tools/${tool}`, { method: "POST", headers, body: JSON.stringify(given) });
  assert.ok(asked.ok, `${tool}: ${asked.status}`);
  return asked.json();
}

// Each kind of answer that the tools have besides, and the `status` in it, if there is one.
async function others(run) {
  const { charge: target, payment: payment_intent, staffKey } = scene;
  const pending = { target, amountMinor: 6000, idempotencyKey: run };
  const { intentId, approvalId } = await asked(staffKey, "stripe_refund", pending);
  return [
    ["stripe_refund", pending, "pending_approval"],
    ["stripe_refund", { target, amountMinor: 20_000, idempotencyKey: `${run}-denied` }, "denied"],
    ["stripe_refund", { target, dryRun: true }, "dry_run"],
    ["get_intent", { intentId }, "pending_approval"],
    ["get_approval_status", { approvalId }],
    ["list_refunds", { limit: 1 }],
    ["get_budget", {}],
    ["finance_payments", { limit: 2 }],
    ["finance_balance", {}],
    ["customers_search", { keyword: "Customer" }],
    ["finance_disputes", { status: "all", limit: 2 }],
    ["finance_refund", { payment_intent, amount: "1.50", idempotencyKey: `${run}-finance` }, "pending_approval"],
    ["cancel_refund", { intentId }, "denied"],
  ];
}

// The SDK holds these against the schemas too.
async function call(client, rows) {
  await client.listTools();
  for (const [name, given, status] of rows) {
    const { structuredContent, content, isError } = await client.callTool({ name, arguments: given });
    assert.ok(!isError, `${name}: ${JSON.stringify(content)}`);
    assert.equal(structuredContent.status, status, name);
    assert.deepEqual(JSON.parse(content[0].text), structuredContent, name);
  }
  await client.close();
}

const me = { name: "clients", version: "1" };

const transports = {
  http: (sdk, key) =>
    new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: bearer(key) } }),
  stdio: (sdk, key) =>
    new sdk.StdioClientTransport({ command: binary, args: ["mcp"], env: environment(key) }),
};

async function inspected(era, door, key) {
  const inspector = join(packages, "inspector", "clients", "launcher", "build", "index.js");
  const words = [inspector, "--cli", "--protocol-era", era, "--method", "tools/list", "--strict"];
  const http = [url, "--transport", "http", "--header", `Authorization: Bearer ${key}`];
  const variables = Object.entries(environment(key)).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
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
// An SDK's whole use, and the other answers, by two clients that `connect` opens with a key.
function sdk(name, run, connect) {
  cases.push([name, async () => use(await connect(scene.key), run)]);
  cases.push([`${name}, every other answer`, async () => call(await connect(scene.staffKey), await others(run))]);
}
for (const door of ["http", "stdio"]) {
  for (const era of ["legacy", "modern"]) {
    for (const { who, key, names } of AGENTS) {
      cases.push([`inspector over ${door}, ${era}, ${who}: strict, and the same twice`, async () => {
        const lists = [await inspected(era, door, key), await inspected(era, door, key)];
        assert.equal(lists[0], lists[1]);
        const listed = JSON.parse(lists[0]).tools.map((tool) => tool.name);
        assert.deepEqual(listed, names);
        for (const name of listed) assert.match(name, /^[a-z0-9_]{1,40}$/);
      }]);
    }
  }
  sdk(`sdk 1.32.2 over ${door}`, `first-${door}`, async (key) => {
    const client = new first.Client(me);
    await client.connect(transports[door]({ ...firstHttp, ...firstStdio }, key));
    return client;
  });
  for (const mode of ["legacy", { pin: MODERN }]) {
    const era = mode.pin ?? mode;
    sdk(`client 2.4.0 over ${door}, ${era}`, `second-${door}-${era}`, async (key) => {
      const client = new second.Client(me, { versionNegotiation: { mode } });
      await client.connect(transports[door]({ ...second, ...secondStdio }, key));
      return client;
    });
  }
  for (const mode of ["legacy", MODERN]) {
    const [name, idempotencyKey] = [`Python mcp 2.3.0 over ${door}, ${mode}`, `python-${door}-${mode}`];
    const script = async (key, ...more) => {
      const words = [join(here, "sdk.py"), door, mode, url, binary, ...more];
      const { code, out, err } = await run(python, words, environment(key));
      assert.equal(code, 0, out + err);
    };
    cases.push([name, async () => {
      await script(scene.key, scene.charge, idempotencyKey);
      expected += 1;
    }]);
    cases.push([`${name}, every other answer`, async () =>
      script(scene.staffKey, JSON.stringify(await others(idempotencyKey)))]);
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
for (const { who, key, bytesMax } of AGENTS) {
  cases.push([`the list is small: ${who}`, async () => {
    const answer = await fetch(`${scene.gateway}/v1/tools`, { headers: bearer(key) });
    const bytes = (await answer.arrayBuffer()).byteLength;
    assert.ok(bytes < bytesMax, `${bytes} bytes`);
  }]);
}
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
