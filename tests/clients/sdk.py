"""The gateway's tools, as the official Python SDK of MCP sees them.

Usage: sdk.py DOOR MODE URL BINARY CHARGE IDEMPOTENCY_KEY

DOOR is `http` or `stdio`, MODE what the SDK calls the revision: `legacy`, or the newest one. The
agent's key and the gateway's address are in the environment. Exits with 0 when all went well.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

DOOR, MODE, URL, BINARY, CHARGE, KEY = sys.argv[1:] if len(sys.argv) == 7 else sys.exit(__doc__)
VARIABLES = {name: os.environ[name] for name in ("BURNBOUND_GATEWAY_URL", "BURNBOUND_KEY")}


async def use(server):
    async with Client(server, mode=MODE) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed][0] == "stripe_refund", listed
        refund = {"target": CHARGE, "amountMinor": 100, "idempotencyKey": KEY}
        for replayed in (False, True):
            # The SDK raises when the structured result does not fit the tool's output schema.
            made = await client.call_tool("stripe_refund", refund)
            assert not made.is_error, made.content
            answer = made.structured_content
            assert (answer["status"], answer["replayed"]) == ("refunded", replayed), answer
            assert json.loads(made.content[0].text) == answer
        wrong = await client.call_tool("stripe_refund", {**refund, "amountMinor": 1e20})
        assert wrong.is_error and "Nothing was refunded." in wrong.content[0].text, wrong
        for name, given in (("get_intent", {"idempotencyKey": KEY}), ("list_refunds", {}), ("get_budget", {})):
            read = await client.call_tool(name, given)
            assert not read.is_error and read.structured_content, read


async def main():
    if DOOR == "stdio":
        await use(StdioServerParameters(command=BINARY, args=["mcp"], env=VARIABLES))
        return
    headers = {"Authorization": f"Bearer {VARIABLES['BURNBOUND_KEY']}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        await use(streamable_http_client(URL, http_client=http))


asyncio.run(main())
