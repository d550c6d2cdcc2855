// What `cargo xtask dist` made, as those take it who install it: the digests agree, the program in
// the archive serves, and the bundle's own command, filled in as a host fills it in, speaks MCP to it
// and makes a refund.
//
// Usage: check.mjs FOLDER

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, sep } from "node:path";
import readline from "node:readline";

import { getMcpConfigForManifest, unpackExtension, validateManifest } from "@anthropic-ai/mcpb";

import { open } from "./scene.mjs";

const [folder] = process.argv.slice(2);
const read = (...path) => readFileSync(join(...path));
const json = (...path) => JSON.parse(read(...path));
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

const { version, packages } = json(folder, "server.json");
const [listed] = packages;
const name = `action-gateway-${version}`;
const bundle = `${name}.mcpb`;
const archive = readdirSync(folder).find((file) => file.startsWith(name) && file.endsWith(".tar.gz"));

for (const line of read(folder, "SHA256SUMS").toString().trimEnd().split("\n")) {
  const [digest, file] = line.split("  ");
  assert.equal(sha256(read(folder, file)), digest, file);
}
assert.equal(sha256(read(folder, bundle)), listed.fileSha256);
assert.ok(listed.identifier.endsWith(`/${bundle}`), listed.identifier);
console.log("ok the digests agree");

const home = mkdtempSync(join(tmpdir(), "action-gateway-dist-"));
let scene;
try {
  execFileSync("tar", ["-xzf", join(folder, archive), "-C", home]);
  const files = readdirSync(join(home, name));
  for (const file of ["LICENSE", "README.md", "docs"]) assert.ok(files.includes(file), file);
  scene = await open(join(home, name, "action-gateway"));
  console.log("ok the program in the archive serves");

  const installed = join(home, "installed");
  assert.ok(await unpackExtension({ mcpbPath: join(folder, bundle), outputDir: installed, silent: true }));
  assert.ok(validateManifest(installed), "the manifest is not valid");
  const manifest = json(installed, "manifest.json");
  const asked = ["BURNBOUND_GATEWAY_URL", "BURNBOUND_KEY"];
  assert.deepEqual(Object.keys(manifest.server.mcp_config.env), asked);
  assert.deepEqual(listed.environmentVariables.map((variable) => variable.name), asked);
  assert.ok(manifest.user_config.agent_key.sensitive, "hosts would keep the key in plain sight");
  const config = await getMcpConfigForManifest({
    manifest,
    extensionPath: installed,
    systemDirs: {},
    userConfig: { gateway_url: scene.gateway, agent_key: scene.key },
    pathSeparator: sep,
  });
  console.log("ok the bundle is installed");

  const child = spawn(config.command, config.args, { env: config.env, stdio: ["pipe", "pipe", "inherit"] });
  await once(child, "spawn");
  const answers = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask = async (id, method, params) => {
    send({ id, method, params });
    const { value } = await answers.next();
    const answer = JSON.parse(value);
    assert.equal(answer.id, id, value);
    return answer.result;
  };
  const client = { name: "check", version: "1" };
  const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: client };
  assert.equal((await ask(1, "initialize", hello)).serverInfo.version, version);
  send({ method: "notifications/initialized" });
  // Those that need a grant come last, and this agent has none.
  const tools = (await ask(2, "tools/list", {})).tools.map((tool) => tool.name);
  assert.deepEqual(manifest.tools.slice(0, tools.length).map((tool) => tool.name), tools);
  const refund = { name: "stripe_refund", arguments: { target: scene.charge, amountMinor: 100 } };
  assert.equal((await ask(3, "tools/call", refund)).structuredContent.status, "refunded");
  assert.equal((await scene.refunds()).length, 1);
  child.stdin.end();
  assert.deepEqual(await once(child, "close"), [0, null]);
  console.log("ok the bundle's command refunds");
} finally {
  scene?.close();
  rmSync(home, { recursive: true, force: true });
}
