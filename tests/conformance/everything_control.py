"""Tools of the everything server that send progress and log messages or close their stream during a call."""

from __future__ import annotations

import trio

from trio_mcp import Context

STEP = 0.05
"""Seconds between two messages: scenarios check their order and allow half a second in all."""


async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages."""
    await ctx.log("info", "Tool execution started")
    await trio.sleep(STEP)
    await ctx.log("info", "Tool processing data")
    await trio.sleep(STEP)
    await ctx.log("info", "Tool execution completed")
    return "Three messages were logged"


async def test_logging_tool(ctx: Context) -> str:
    """Log one message, which a client without a log level must not receive."""
    await ctx.log("info", "This is a log message")
    return "One message was logged"


async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, total=100, message=f"{done} of 100")
        await trio.sleep(STEP)
    return "Progress was reported"


async def test_reconnection(ctx: Context) -> str:
    """Close the stream of the response during the call; the client gets the result by reconnecting."""
    await ctx.close_stream(retry=0.1)
    await trio.sleep(2 * STEP)
    return "Reconnection test completed successfully"


CONTROL_TOOLS = (test_tool_with_logging, test_logging_tool, test_tool_with_progress, test_reconnection)
