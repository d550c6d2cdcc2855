// A Stripe, a gateway and an agent to test clients on: the real binary, in a folder of its own,
// on ports that the system chooses. Everything ends with `close`.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import readline from "node:readline";

const POLICY = `[organization]

[agents.support-bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "1000.00"

[agents.finance-bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
tools = ["finance_payments", "finance_balance", "customers_search", "finance_disputes", "finance_refund"]
max_per_payment = "100.00"
daily_cap = "1000.00"
approval_threshold = "50.00"
`;

// How long a server may take to say where it listens.
const START_MILLIS_MAX = 30_000;

// `more` is what the gateway is told besides.
export async function open(binary, more = {}) {
  const home = mkdtempSync(join(tmpdir(), "action-gateway-clients-"));
  const env = { GATEWAY_DATA_DIR: join(home, "data"), GATEWAY_EPHEMERAL: "1", GATEWAY_LOG: "warn" };
  const children = [];
  const admin = (...words) => execFileSync(binary, words, { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const serve = async (words, variables) => {
    const child = spawn(binary, words, { env: { ...env, ...variables }, stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    const line = await firstLine(child);
    const url = /^listening on (http:\S+)/.exec(line)?.[1];
    if (!url) throw new Error(`${words[0]} said ${JSON.stringify(line)} instead of its address`);
    return url;
  };
  const close = () => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  };
  try {
    const policy = join(home, "policy.toml");
    writeFileSync(policy, POLICY);
    admin("policy", "apply", policy);
    const [key, staffKey] = ["support-bot", "finance-bot"].map(
      (name) => JSON.parse(admin("agent", "create", name, "--json")).key,
    );
    const stripe = await serve(["stripe-sandbox", "--port", "0"], {});
    const gateway = await serve(["serve", "--port", "0"], {
      GATEWAY_FX_URL: `${stripe}/_sandbox/rates/eurofxref-daily.xml`,
      STRIPE_API_BASE: stripe,
      STRIPE_SECRET_KEY: "rk_test_51KeyOfTheClients1234",
      ...more,
    });
    const control = (path, order) =>
      fetch(`${stripe}/_sandbox/${path}`, { method: "POST", body: JSON.stringify(order) });
    await control("seed", { payments: 5, disputes: 5, customers: 5 });
    const charge = { id: "ch_clients", payment_intent: "pi_clients", amount: 100_000 };
    await control("charges", charge);
    const refunds = async () => {
      const headers = { authorization: "Bearer sk_test_clients" };
      return (await (await fetch(`${stripe}/v1/refunds?limit=100`, { headers })).json()).data;
    };
    const payment = charge.payment_intent;
    return { binary, gateway, key, staffKey, charge: charge.id, payment, refunds, close };
  } catch (error) {
    close();
    throw error;
  }
}

function firstLine(child) {
  return new Promise((done, failed) => {
    const late = setTimeout(() => failed(new Error("no first line came")), START_MILLIS_MAX);
    const lines = readline.createInterface({ input: child.stdout });
    lines.once("line", (line) => done(line));
    lines.once("close", () => failed(new Error("it ended without a line")));
    lines.once("line", () => clearTimeout(late));
    child.stdout.resume();
  });
}

// The same gateway for clients that send no key: a proxy that adds it and changes nothing else.
export function withKey(scene) {
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${scene.key}` };
    const to = new URL(request.url, scene.gateway);
    const onward = http.request(to, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  return new Promise((done) => {
    server.listen(0, "127.0.0.1", () => {
      const close = () => server.close().closeAllConnections();
      done({ url: `http://127.0.0.1:${server.address().port}/mcp`, close });
    });
  });
}
