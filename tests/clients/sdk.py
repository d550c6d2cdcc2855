"""The gateway's tools, as the official Python SDK of MCP sees them.

Usage: sdk.py DOOR MODE URL BINARY CHARGE IDEMPOTENCY_KEY
       sdk.py DOOR MODE URL BINARY CALLS

DOOR is `http` or `stdio`, MODE what the SDK calls the revision: `legacy`, or the newest one. CALLS
is JSON: a list of calls, each with a tool, its arguments, and perhaps the status that it answers.
The agent's key and the gateway's address are in the environment. Exits with 0 when all went well.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

DOOR, MODE, URL, BINARY, *WHAT = sys.argv[1:] if len(sys.argv) in (6, 7) else sys.exit(__doc__)
VARIABLES = {name: os.environ[name] for name in ("BURNBOUND_GATEWAY_URL", "BURNBOUND_KEY")}


async def call(server, calls):
    async with Client(server, mode=MODE) as client:
        await client.list_tools()
        for name, given, *status in calls:
            answer = await client.call_tool(name, given)
            assert not answer.is_error, (name, answer.content)
            assert json.loads(answer.content[0].text) == answer.structured_content, name
            assert answer.structured_content.get("status") == (status[0] if status else None), answer


async def use(server, charge, key):
    async with Client(server, mode=MODE) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed][0] == "stripe_refund", listed
        refund = {"target": charge, "amountMinor": 100, "idempotencyKey": key}
        for replayed in (False, True):
            # The SDK raises when the structured result does not fit the tool's output schema.
            made = await client.call_tool("stripe_refund", refund)
            assert not made.is_error, made.content
            answer = made.structured_content
            assert (answer["status"], answer["replayed"]) == ("refunded", replayed), answer
            assert json.loads(made.content[0].text) == answer
        wrong = await client.call_tool("stripe_refund", {**refund, "amountMinor": 1e20})
        assert wrong.is_error and "Nothing was refunded." in wrong.content[0].text, wrong
        for name, given in (("get_intent", {"idempotencyKey": key}), ("list_refunds", {}), ("get_budget", {})):
            read = await client.call_tool(name, given)
            assert not read.is_error and read.structured_content, read


def work(server):
    return use(server, *WHAT) if len(WHAT) == 2 else call(server, json.loads(WHAT[0]))


async def main():
    if DOOR == "stdio":
        await work(StdioServerParameters(command=BINARY, args=["mcp"], env=VARIABLES))
        return
    headers = {"Authorization": f"Bearer {VARIABLES['BURNBOUND_KEY']}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        await work(streamable_http_client(URL, http_client=http))


asyncio.run(main())
